// A table's columns: types, rules, and what is known of their values without reading a row. Sample rows on demand, by a query.
// Rule: the statistics of a table that a policy restricts are not asked for: they would be those of the rows of others.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { failure } from "../failure.js";
import { count, inQuotes, many } from "../format.js";
import { Grid } from "../grid.js";
import { Latest } from "../latest.js";
import { decode } from "../result.js";
import { arrowBytes } from "../stream.js";
import { histogram, values } from "./histogram.js";

const HEADS = ["Column", "Type", "Rules", "Least", "Greatest", "Nulls", "Values"];
const FIXED = 3; // the heads before what is known later
const SAMPLE = 20;

export class OverviewTab {
  #latest = new Latest();
  #part = null;

  /** `acts` are the buttons of tokens that may define tables. */
  constructor(detail, acts) {
    this.detail = detail;
    this.body = h("tbody", {});
    this.note = h("p", { class: "hint", id: "statistics-note", role: "status" });
    this.sampleButton = h("button", { type: "button", id: "sample", on: { click: () => this.#sample() } }, "Show sample rows");
    this.place = h("div", { class: "sample-rows" });
    const sort = detail.sort_by;
    this.element = h("div", {}, acts,
      h("div", { class: "scroll" }, h("table", { class: "plain columns" }, h("caption", { class: "unseen" }, "Columns"),
        h("thead", {}, h("tr", {}, HEADS.map((name) => h("th", { scope: "col", class: name === "Nulls" ? "right" : null }, name)))), this.body)),
      this.note,
      detail.row_ids ? h("p", { class: "hint" }, "Each row has a number, _row_id, and can be changed.") : null,
      sort.length ? h("p", { class: "hint" }, `Sorted by ${sort.join(", ")}: conditions on these columns and on the time column read the least data.`) : null,
      this.sampleButton, this.place);
    this.#rows();
  }

  async start() {
    if (this.detail.restricted) { fill(this.note, "The statistics of a table that a policy restricts are not shown."); return; }
    const run = this.#latest.begin();
    try {
      const found = await api.statistics(this.detail.name, this.detail.version, run.signal);
      if (!run.isCurrent()) return;
      const known = new Map(found.columns.map((column) => [column.name, column]));
      for (const [name, row] of this.rows) row.replaceChildren(...[...row.children].slice(0, FIXED), ...knownOf(known.get(name)));
      fill(this.note, said(found));
    } catch (error) {
      if (run.isCurrent() && error.name !== "AbortError") fill(this.note, `There are no statistics: ${error.message}`);
    }
  }

  stop() {
    this.#latest.cancel();
    this.#part?.stop();
  }

  #rows() {
    const { detail } = this;
    const row = (name, type, rules) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { "data-label": "Type" }, h("code", {}, type)), h("td", { "data-label": "Rules", class: rules ? "rules-cell" : "none" }, rules), knownOf());
    const own = detail.columns.map((column) => [column.name, row(column.name, column.kind ?? column.type, rulesOf(column, detail))]);
    const labels = Object.entries(detail.labels).map(([name, value]) => [name, row(name, "string", value === null ? "label" : `label, ${value} unless a write says otherwise`)]);
    this.rows = [...own, ...labels];
    fill(this.body, this.rows.map(([, element]) => element));
  }

  async #sample() {
    const run = this.#latest.begin();
    this.place.setAttribute("aria-busy", "true");
    try {
      const response = await api.query(`SELECT * FROM ${inQuotes(this.detail.name)}`, { limit: SAMPLE, signal: run.signal });
      const result = decode(await arrowBytes(response, () => {}), SAMPLE);
      if (!run.isCurrent()) return;
      this.#part?.stop();
      this.#part = new Grid(result, { label: `Sample rows of ${this.detail.name}` });
      fill(this.place, result.rows ? this.#part.element : h("p", { class: "empty" }, "No rows."));
      if (result.rows) this.#part.start();
      fill(this.sampleButton, "Show sample rows again");
    } catch (error) {
      if (run.isCurrent() && error.name !== "AbortError") fill(this.place, failure(error));
    }
    if (run.isCurrent()) this.place.removeAttribute("aria-busy");
  }
}

function said({ rows, current }) {
  if (rows === null) return "The table has too many blocks to add up their statistics.";
  return `Known from the metadata of ${many(rows, "stored row")}; no row was read.${current ? "" : " Rows that newer versions hide are among them."}`;
}

// The cells of what the metadata says of a column.
function knownOf(found) {
  const hasNulls = found?.nulls !== null && found?.nulls !== undefined;
  const shape = found?.values ? values(found.values) : found?.bins?.length ? histogram(found) : null;
  return [bound("Least", found?.min), bound("Greatest", found?.max), h("td", { class: hasNulls ? "right" : "right none", "data-label": "Nulls" }, nulls(found)), h("td", { "data-label": "Values", class: shape ? null : "none" }, shape)];
}

function bound(label, text) {
  const known = text !== null && text !== undefined;
  return h("td", { "data-label": label, class: known ? "bound" : "none" }, known ? h("span", { title: text }, text) : null);
}

function nulls(found) {
  if (found?.nulls === null || found?.nulls === undefined) return null;
  return [count(found.nulls), found.nans ? h("span", { class: "dim" }, `, ${count(found.nans)} NaN`) : null];
}

function rulesOf(column, detail) {
  const found = [];
  const sort = detail.sort_by;
  if (column.name === detail.time_column) found.push("time column");
  if (sort.includes(column.name)) found.push(`sort key ${sort.indexOf(column.name) + 1}`);
  if (detail.key.includes(column.name)) found.push("key");
  if (column.nullable === false) found.push("never null");
  if (column.max_length) found.push(`at most ${count(column.max_length)} characters`);
  if (column.pattern) found.push(`matches ${column.pattern}`);
  if (column.check) found.push(`check ${column.check}`);
  if (column.default !== null && column.default !== undefined) found.push(`default ${column.default}`);
  const about = column.description ? h("div", { class: "dim" }, column.description) : null;
  return found.length || about ? [found.join(", "), about] : null;
}
