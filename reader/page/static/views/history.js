// The versions of a table, newest first; any two can be compared, and each can be queried.

import * as api from "../api.js";
import { fill, h, unseen } from "../dom.js";
import { failure } from "../failure.js";
import { count, many, moment, quoted } from "../format.js";
import { Latest } from "../latest.js";
import { toConsole, toTable } from "../route.js";

export class HistoryTab {
  #latest = new Latest();

  constructor(detail, answer, options) {
    this.name = detail.name;
    this.tags = Object.entries(detail.tags);
    this.entries = [];
    this.#take(answer);
    this.from = number(options.from) ?? this.entries[1]?.version ?? null;
    this.to = number(options.to) ?? this.entries[0]?.version ?? null;
    this.difference = h("div", { class: "difference", "aria-live": "polite" });
    this.body = h("tbody", {});
    this.more = h("button", { type: "button", on: { click: () => this.#older() } }, "Older versions");
    this.element = h("div", {}, this.difference, h("div", { class: "scroll" }, h("table", { class: "plain history" },
      h("thead", {}, h("tr", {}, ["From", "To", "Version", "Time (UTC)", "What", "Rows", "Blocks", "By", unseen("Actions")].map((name) => h("th", { scope: "col", class: ["Version", "Rows"].includes(name) ? "right" : null }, name)))), this.body)), this.more);
    this.#rows();
  }

  start() { this.#compare(); }

  #take({ entries, more }) {
    this.entries.push(...entries);
    this.hasOlder = Boolean(more);
  }

  async #older() {
    try {
      this.#take(await api.history(this.name, { before: this.entries.at(-1).version }));
      this.#rows();
    } catch (error) {
      fill(this.difference, failure(error));
    }
  }

  #rows() {
    this.more.hidden = !this.hasOlder;
    fill(this.body, this.entries.map((entry) => h("tr", { "data-version": entry.version },
      ...["from", "to"].map((end) => h("td", { class: "pick", "data-label": end === "from" ? "From" : "To" }, h("input", {
        type: "radio", name: `diff-${end}`, value: entry.version, checked: this[end] === entry.version, "aria-label": `${end} version ${entry.version}`,
        on: { change: () => { this[end] = entry.version; this.#compare(true); } },
      }))),
      h("th", { scope: "row", class: "right", "data-label": "Version" }, count(entry.version)), h("td", { class: "nowrap" }, moment(entry.time)),
      h("td", {}, h("span", { class: "chip" }, entry.operation), this.tags.filter(([, version]) => version === entry.version).map(([tag]) => h("span", { class: "chip tag" }, tag)), entry.message ? ` ${entry.message}` : null),
      h("td", { class: "right", "data-label": "Rows" }, entry.rows_added ? `+${count(entry.rows_added)}` : "–"), h("td", { class: "nowrap", "data-label": "Blocks" }, change(entry.added.length, entry.removed.length)), h("td", { class: "dim" }, entry.by ?? ""),
      h("td", {}, h("a", { class: "nowrap", href: toConsole(`SELECT *\nFROM ${quoted(this.name)}\nLIMIT 1000`, { version: entry.version }), "aria-label": `Query at version ${entry.version}` }, "Query here")))));
  }

  async #compare(chosen = false) {
    if (this.from === null || this.to === null) { fill(this.difference, h("p", { class: "hint" }, "There is only one version: nothing to compare.")); return; }
    if (chosen) window.history.replaceState(null, "", toTable(this.name, "history", { from: this.from, to: this.to }));
    const run = this.#latest.begin();
    this.difference.setAttribute("aria-busy", "true");
    try {
      const found = await api.diff(this.name, this.from, this.to, run.signal);
      if (run.isCurrent()) fill(this.difference, shown(found, this.from, this.to));
    } catch (error) {
      if (run.isCurrent()) fill(this.difference, failure(error));
    }
    if (run.isCurrent()) this.difference.removeAttribute("aria-busy");
  }
}

function shown(found, from, to) {
  const side = (word, blocks, sign) => h("div", { class: `side ${word}` },
    h("h3", {}, `${sign}${many(rowsOf(blocks), "row")}`), h("p", {}, `${many(blocks.length, "block")} ${word}`),
    blocks.length ? h("details", {}, h("summary", {}, "Which"), h("ul", {}, blocks.slice(0, MOST).map((block) => h("li", {}, h("code", {}, block.ulid), ` ${many(block.rows, "row")}`)),
      blocks.length > MOST ? h("li", {}, `and ${count(blocks.length - MOST)} more`) : null)) : null);
  const hidden = Object.keys(found.hidden ?? {}).length, again = Object.keys(found.shown ?? {}).length;
  return [h("h2", {}, `From version ${count(from)} to ${count(to)}`),
    h("p", { class: "hint" }, [inAll(found.rows), hidden ? `writes hidden in ${many(hidden, "block")}` : "", again ? `writes shown again in ${many(again, "block")}` : "",
      found.schema_changed ? "the columns changed" : ""].filter(Boolean).join(", ")),
    h("div", { class: "sides" }, side("added", found.added, "+"), side("removed", found.removed, "−"))];
}

function inAll(rows) {
  if (rows === null) return "some rows are hidden in merged blocks: only a query can count the difference";
  return rows ? `${many(Math.abs(rows), "row")} ${rows < 0 ? "fewer" : "more"} in total` : "the same number of rows";
}

const MOST = 200;
const rowsOf = (blocks) => blocks.reduce((sum, block) => sum + block.rows, 0);

function change(added, removed) {
  return [added ? `+${count(added)}` : "", removed ? `−${count(removed)}` : ""].filter(Boolean).join(" ") || "–";
}

const number = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : null);
