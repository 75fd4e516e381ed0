// A statement of the console that changes rows or defines a table: counted, asked for if it changes many rows, and run as a job.
// Rules: what cannot be counted is always asked for, and so are rows that a query computes: to count them is to compute all of
// them, and once more when it runs. A statement that was sent ends in a known way, also after Cancel: what is
// said at the end is what was written.

import * as api from "../api.js";
import { disable, fill, h } from "../dom.js";
import { GatewayError } from "../errors.js";
import { failure } from "../failure.js";
import { bytes, count, many } from "../format.js";
import { button, openDialog } from "./dialogs.js";

const SHOWN = 2_000;

export class Statement {
  #id = null;
  #isCancelled = false;

  constructor(sql) {
    this.sql = sql;
  }

  /** What it would change now: {rows, parts, blocks, size}; null where that cannot be counted, or costs as much as to run it. */
  counted(signal) { return insertsQuery(this.sql) ? null : counted(this.sql, signal); }

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

const QUOTED = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"/g;

/** Whether a statement inserts the rows of a query. */
export function insertsQuery(sql) {
  const words = sql.replace(QUOTED, " ");
  return /^\s*(with\b[^;]*[\s)])?insert\s[^;]*\b(select|from|table)\b/i.test(words);
}

function isConfirmed(sql, found) {
  return new Promise((resolve) => {
    let isYes = false;
    const counting = new AbortController();
    openDialog({
      title: found ? `Change ${many(found.rows, "row")}?` : "Run this statement?",
      body: [found ? counts(found) : insertsQuery(sql) ? onDemand(sql, counting.signal) : h("p", {}, "What it changes cannot be counted before it runs."),
        h("pre", { class: "statement" }, sql.length > SHOWN ? `${sql.slice(0, SHOWN)}…` : sql)],
      // The focus is on the harmless one: Enter, pressed once more by accident, runs nothing.
      buttons: (close) => [button("Run the statement", () => { isYes = true; close(); }, "primary"), h("button", { type: "button", autofocus: true, on: { click: close } }, "Do not run it")],
      onClose: () => { counting.abort(); resolve(isYes); },
    });
  });
}

// Rows of a query are counted by computing them, so only on demand.
function onDemand(sql, signal) {
  const said = h("div", { role: "status" }, h("p", {}, "How many rows it inserts is known when it has run: to count them computes the query once more."));
  const ask = button("Count the rows", async () => {
    disable(ask, true);
    fill(said, h("p", {}, h("span", { class: "spinner", "aria-hidden": "true" }), "Counting"));
    try {
      const found = await counted(sql, signal);
      fill(said, found ? counts(found) : h("p", {}, "What it changes cannot be counted before it runs."));
      ask.hidden = true;
    } catch (error) {
      if (!signal.aborted) fill(said, failure(error));
      disable(ask, false);
    }
  });
  return [said, h("p", {}, ask)];
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
