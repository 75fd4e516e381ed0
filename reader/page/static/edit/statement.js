// A statement of the console that changes rows or defines a table: counted, asked for if it changes many rows, and run as a job.
// Rules: what cannot be counted is always asked for. A statement that was sent ends in a known way, also after Cancel: what is
// said at the end is what was written.

import * as api from "../api.js";
import { h } from "../dom.js";
import { GatewayError } from "../errors.js";
import { bytes, count, many } from "../format.js";
import { button, openDialog } from "./dialogs.js";

/** How many rows a statement may change before it is asked for. */
export const ASK_ABOVE = [0, 100, 1_000, 100_000];

const SHOWN = 2_000;

export class Statement {
  #id = null;
  #isCancelled = false;

  constructor(sql) {
    this.sql = sql;
  }

  /** What it would change now: {rows, parts, blocks, size}; null where that cannot be counted. */
  counted(signal) { return counted(this.sql, signal); }

  /** Ask whether it is to be run; resolves to the choice. */
  isConfirmed(found) { return isConfirmed(this.sql, found); }

  /** Run it; the same `key` runs it once, however often it is sent. Resolves to what was written, as a sentence. */
  async run(key) {
    const job = await api.statement(this.sql, key, (id) => { this.#id = id; if (this.#isCancelled) this.cancel(); });
    return { job, sentence: sentenceOf(job) };
  }

  /** Ask the gateway to end it; `run` says whether it was in time. */
  cancel() {
    this.#isCancelled = true;
    if (this.#id !== null) api.cancelJob(this.#id).catch(() => { /* it has ended already, or its own requests fail too */ });
  }
}

// What a statement would change now, or null where EXPLAIN has no numbers: of a transaction, and of a table's definition.
async function counted(sql, signal) {
  let found;
  try {
    found = await api.explain(sql, signal);
  } catch (error) {
    if (error.detail?.error === "not_a_query") return null;
    throw error;
  }
  const parts = ["insert", "update", "delete"].map((act) => [act, found.get(`rows to ${act}`) ?? 0]);
  return { parts, rows: parts.reduce((sum, [, rows]) => sum + rows, 0), blocks: found.get("blocks to write again"), size: found.get("bytes of these blocks") };
}

function isConfirmed(sql, found) {
  return new Promise((resolve) => {
    let isYes = false;
    openDialog({
      title: found ? `Change ${many(found.rows, "row")}?` : "Run this statement?",
      body: [found ? counts(found) : h("p", {}, "What it changes cannot be counted before it runs."),
        h("pre", { class: "statement" }, sql.length > SHOWN ? `${sql.slice(0, SHOWN)}…` : sql)],
      // The focus is on the harmless one: Enter, pressed once more by accident, runs nothing.
      buttons: (close) => [button("Run the statement", () => { isYes = true; close(); }, "primary"), h("button", { type: "button", autofocus: true, on: { click: close } }, "Do not run it")],
      onClose: () => resolve(isYes),
    });
  });
}

const counts = ({ parts, blocks, size }) => [
  h("ul", {}, parts.filter(([, rows]) => rows).map(([act, rows]) => h("li", {}, `${many(rows, "row")} to ${act}`)),
    blocks ? h("li", {}, `${many(blocks, "block")} to write again, ${bytes(size)}`) : null),
  h("p", { class: "hint" }, "Counted a moment ago: rows that others change meanwhile are counted when it runs.")];

function sentenceOf({ table, version, record }) {
  const written = record.written ?? {};
  const acts = ["inserted", "updated", "deleted"].filter((act) => written[act]).map((act) => `${act} ${many(written[act], "row")}`);
  const isOfRows = written.inserted !== undefined;
  if (isOfRows && !acts.length) return "No row was changed.";
  const what = acts.length ? capital(acts.join(", ")) : "Done";
  return `${what}${table ? `: table ${table}` : ""}${version === null ? "" : `, version ${count(version)}`}.`;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Why a statement that came with an address is not run. */
export const notOfALink = () => new GatewayError("The SQL of this address is not a query: read it, then press Run.");

/** Why a statement is not run in the past. */
export const notOfThePast = () => new GatewayError("A statement changes the newest version: set the time to Now, then press Run.");
