// Rows by a column, without SQL: a condition, an order, and how often each value occurs.
// Rules: a condition is added to the SQL that people see and can change. What a value is in SQL is decided here only. Values
// are counted on demand only: that reads the column.

import * as api from "../api.js";
import { fill, h, labelled } from "../dom.js";
import { failure } from "../failure.js";
import { count, inQuotes } from "../format.js";
import { Latest } from "../latest.js";
import { menu } from "../menu.js";
import { decode } from "../result.js";
import { arrowBytes } from "../stream.js";

const COMPARISONS = new Map([["=", "="], ["≠", "<>"], [">", ">"], ["≥", ">="], ["<", "<"], ["≤", "<="], ["contains", ""], ["is null", "IS NULL"], ["is not null", "IS NOT NULL"]]);
const MOST_VALUES = 10;

export class ByColumn {
  #latest = new Latest();
  #columns = [];

  /** `onCondition(sql)`, `onOrder({column, descending} or null)`; `where()` is the condition so far, `minVersion()` the least version to read. */
  constructor({ name, onCondition, onOrder, where, minVersion }) {
    Object.assign(this, { name, onCondition, where, minVersion });
    this.column = h("select", { on: { change: () => this.#forget() } });
    this.comparison = h("select", { on: { change: () => this.#ask() } }, [...COMPARISONS.keys()].map((sign) => h("option", { value: sign }, sign)));
    this.value = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    this.valueField = labelled("Value", this.value);
    this.counts = h("div", { class: "value-counts", role: "status" });
    this.summary = h("summary", { id: "by-column" }, "By column");
    const order = (text, descending) => h("button", { type: "button", on: { click: () => { this.#close(); onOrder(descending === null ? null : { column: this.column.value, descending }); } } }, text);
    this.element = menu({ summary: this.summary, kind: "by-column", card: [
      labelled("Column", this.column),
      h("form", { class: "row", "aria-label": "Condition", on: { submit: (event) => { event.preventDefault(); this.#add(); } } }, labelled("Comparison", this.comparison), this.valueField, h("button", { type: "submit" }, "Add condition")),
      h("hr"), h("div", { class: "choices", role: "group", "aria-label": "Order" }, order("Ascending", false), order("Descending", true), order("As stored", null)),
      h("hr"), h("button", { type: "button", on: { click: () => this.#count() } }, "Count values"), this.counts,
    ] });
  }

  /** The columns of the rows that are shown: [{name, kind, typeName}]. */
  set columns(columns) {
    const chosen = this.column.value;
    this.#columns = columns;
    fill(this.column, columns.map(({ name }) => h("option", { value: name, selected: name === chosen }, name)));
  }

  /** Open the menu for a column. */
  open(name) {
    this.column.value = name;
    this.#forget();
    this.element.open = true;
    this.column.focus({ preventScroll: true });
  }

  get #chosen() { return this.#columns.find(({ name }) => name === this.column.value) ?? null; }

  #ask() { this.valueField.hidden = this.comparison.value.startsWith("is "); }

  #forget() {
    this.#latest.cancel();
    fill(this.counts);
  }

  #close() {
    this.#forget();
    this.element.open = false;
    this.summary.focus({ preventScroll: true });
  }

  #add() {
    if (!this.#chosen) return;
    const condition = conditionOf(this.#chosen, this.comparison.value, this.value.value);
    this.value.value = "";
    this.#close();
    this.onCondition(together(this.where(), condition));
  }

  async #count() {
    const column = this.#chosen;
    if (!column) return;
    const run = this.#latest.begin();
    fill(this.counts, h("p", { class: "hint" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Counting…"));
    try {
      const response = await api.countsOf(this.name, column.name, { where: this.where(), limit: MOST_VALUES + 1, minVersion: this.minVersion(), signal: run.signal });
      const result = decode(await arrowBytes(response, () => {}), MOST_VALUES);
      if (run.isCurrent()) fill(this.counts, this.#values(column, result));
    } catch (error) {
      if (run.isCurrent() && error.name !== "AbortError") fill(this.counts, failure(error));
    }
  }

  #values(column, { rows, cut, columns: [values, counts] }) {
    const find = (text) => { this.#close(); this.onCondition(together(this.where(), conditionOf(column, text === null ? "is null" : "=", text))); };
    const value = (text) => (text === null || isPlain(column)
      ? h("button", { type: "button", class: text === null ? "link none" : "link", on: { click: () => find(text) } }, text ?? "null") : h("span", {}, text));
    return [
      h("ul", { "aria-label": `Values of ${column.name}` }, Array.from({ length: rows }, (_, row) => h("li", {}, value(values.text(row)), h("span", { class: "dim" }, count(counts.text(row)))))),
      h("p", { class: "hint" }, cut ? `The ${MOST_VALUES} most frequent values. ` : "", rows ? "" : "No rows."),
    ];
  }
}

// Nested values and bytes have no short form in SQL.
const isPlain = ({ kind, typeName }) => kind !== "text" || typeName === "string" || typeName.startsWith("time");

function conditionOf(column, sign, text) {
  const name = inQuotes(column.name);
  if (text === null || sign.startsWith("is ")) return `${name} ${COMPARISONS.get(sign)}`;
  if (sign === "contains") return `contains(lower(${column.typeName === "string" ? name : `CAST(${name} AS VARCHAR)`}), ${literal(text.toLowerCase())})`;
  const isBare = column.kind === "number" ? /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i : column.kind === "truth" ? /^(true|false)$/i : null;
  return `${name} ${COMPARISONS.get(sign)} ${isBare?.test(text.trim()) ? text.trim() : literal(text)}`;
}

const literal = (text) => `'${text.replaceAll("'", "''")}'`;

// A comment at the end of a condition would hide what follows: in brackets it is an error that people see.
function together(before, condition) {
  if (!before.trim()) return condition;
  return `${/\bor\b|--|\/\*/i.test(before) ? `(${before.trim()})` : before.trim()} AND ${condition}`;
}
