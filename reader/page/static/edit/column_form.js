// The form of one column: its name, type and rules. The gateway judges them; its sentence is shown at the column that it names.

import { fill, h, labelled } from "../dom.js";
import { familyOf, fragmentOf, isWritable, problemOf } from "./column_types.js";

/** The types that people choose from, as the gateway reads them. */
export const TYPES = [
  ["string", "Text"], ["int", "Integer"], ["double", "Double"], ["decimal(18, 2)", "Decimal"], ["bool", "Boolean"], ["date", "Date"], ["timestamp[us, UTC]", "Timestamp (UTC)"],
  ["entity", "Entity (pattern)"], ["link", "Link (URL)"], ["file", "File"],
];
const MAX_LENGTH = 1_000;

let count = 0;

export class ColumnForm {
  /** `column`: one that exists, as the gateway shows it; null: a new one. `isFixed` columns cannot be dropped or be null. */
  constructor({ column = null, isFixed = false, mayBeRequired = true, onMove, onRemove }) {
    Object.assign(this, { column, isFixed });
    this.isDropped = false;
    count += 1;
    const error = `column-error-${count}`;
    const rule = (name, extra = {}) => h("input", { type: "text", value: column?.[name] ?? "", autocomplete: "off", spellcheck: "false", "aria-describedby": error, ...extra });
    this.name = rule("name", { required: true, autocapitalize: "off", "data-part": "name" });
    this.type = column === null ? h("select", { "data-part": "type", on: { change: () => this.#kinds() } }, TYPES.map(([type, word]) => h("option", { value: type }, word))) : null;
    this.maxLength = rule("max_length", { inputmode: "numeric", "data-part": "max_length", value: column === null ? MAX_LENGTH : column.max_length ?? "" });
    this.pattern = rule("pattern", { placeholder: "syn[0-9]+", "data-part": "pattern" });
    this.notNull = h("input", { type: "checkbox", checked: column !== null && !column.nullable, disabled: isFixed || !mayBeRequired, "data-part": "not_null" });
    this.default = rule("default", { "data-part": "default", value: column?.default === null || column?.default === undefined ? "" : String(column.default) });
    this.check = rule("check", { placeholder: "age >= 0 AND age < 150", "data-part": "check" });
    this.description = rule("description", { spellcheck: "true", "data-part": "description" });
    this.written = { name: this.name, max_length: this.maxLength, pattern: this.pattern, default: this.default, check: this.check, description: this.description };
    this.opened = Object.fromEntries(Object.entries(this.written).map(([name, control]) => [name, control.value]));
    this.error = h("p", { class: "field-error", id: error, role: "alert" });
    this.limited = labelled("At most, characters", this.maxLength);
    this.matching = labelled("Pattern", this.pattern);
    this.filled = labelled("Default", this.default);
    this.dropButton = h("button", { type: "button", class: "quiet", disabled: isFixed && column !== null, title: isFixed && column !== null ? "The time column and the columns of the sort key and the key cannot be dropped" : null, on: { click: () => (column === null ? onRemove(this) : this.#drop()) } }, column === null ? "Remove" : "Drop");
    const arrow = (by, sign, word) => h("button", { type: "button", class: "quiet icon", "aria-label": word, on: { click: (event) => { onMove(this, by); event.target.focus(); } } }, sign);
    const rules = h("details", { class: "rules", open: Boolean(column?.check) }, h("summary", {}, "Rules and description"),
      h("div", { class: "row" }, this.filled, labelled("Check (SQL)", this.check, { class: "field wide" }), labelled("Description", this.description, { class: "field wide" })));
    this.fields = h("div", { class: "row" }, labelled("Column", this.name), this.type ? labelled("Type", this.type) : h("span", { class: "field" }, h("span", { class: "label" }, "Type"), h("code", {}, column.kind ?? column.type)),
      this.limited, this.matching, h("label", { class: "check" }, this.notNull, "Never null"));
    this.rules = rules;
    this.element = h("fieldset", { class: "column-form" }, h("legend", { class: "unseen" }, column === null ? "New column" : `Column ${column.name}`),
      h("div", { class: "column-head" }, this.fields, h("span", { class: "grow" }), h("span", { class: "column-acts" }, arrow(-1, "↑", "Move up"), arrow(1, "↓", "Move down"), this.dropButton)), rules, this.error);
    this.#kinds();
  }

  get shownType() { return this.column === null ? { type: this.type.value, kind: ["entity", "link", "file"].includes(this.type.value) ? this.type.value : null } : this.column; }
  get family() { return familyOf(this.shownType); }

  /** Show what is wrong with this column; nothing if it is empty. */
  say(text) {
    fill(this.error, text);
    this.name.setAttribute("aria-invalid", String(Boolean(text)));
    if (text) this.error.scrollIntoView({ block: "nearest" });
  }

  /** Why it cannot be sent; null if it can. */
  get problem() {
    if (!this.name.value.trim()) return "give the column a name";
    if (this.family === "text" && this.maxLength.value.trim() && !/^[1-9]\d*$/.test(this.maxLength.value.trim())) return "the most characters are a number";
    if (this.family === "entity" && !this.pattern.value) return "an entity needs a pattern that its identifiers match";
    const text = this.default.value;
    const problem = text && isWritable(this.shownType) ? problemOf(text, { ...this.shownType, name: "", nullable: true }) : null;
    return problem && `the default: ${problem}`;
  }

  /** The rules as the gateway takes them; null for one that is not there. */
  get ruleValues() {
    const found = { not_null: this.notNull.checked, check: this.check.value.trim() || null, description: this.description.value.trim() || null, default: null, max_length: null, pattern: null };
    if (this.default.value && isWritable(this.shownType)) found.default = JSON.parse(fragmentOf(this.default.value, this.shownType));
    if (this.family === "text" && this.maxLength.value.trim()) found.max_length = Number(this.maxLength.value.trim());
    if (this.family === "entity") found.pattern = this.pattern.value;
    return found;
  }

  /** The name that the column is to have. */
  get wantedName() { return this.column !== null && this.name.value === this.opened.name ? this.column.name : this.name.value.trim(); }

  /** A new column as the gateway takes it. */
  get body() {
    const { not_null: isNotNull, ...rules } = this.ruleValues;
    return { name: this.name.value.trim(), type: this.type.value, nullable: !isNotNull, ...rules };
  }

  /** The rules of a column that exists which differ from what it has. A field has no line breaks: one that was not written in is no change. */
  get changedRules() {
    const was = { not_null: !this.column.nullable, check: null, description: null, default: null, max_length: null, pattern: null, ...Object.fromEntries(["check", "description", "default", "max_length", "pattern"].map((name) => [name, this.column[name] ?? null])) };
    return Object.fromEntries(Object.entries(this.ruleValues).filter(([name, value]) => value !== was[name] && this.written[name]?.value !== this.opened[name]));
  }

  #drop() {
    this.isDropped = !this.isDropped;
    this.element.classList.toggle("dropped", this.isDropped);
    this.fields.inert = this.rules.inert = this.isDropped;
    fill(this.dropButton, this.isDropped ? "Keep" : "Drop");
    this.say("");
  }

  #kinds() {
    this.limited.hidden = this.family !== "text";
    this.matching.hidden = this.family !== "entity";
    this.filled.hidden = this.family === "file" || this.family === "other";
  }
}

/** Show an error of the gateway at the column that its sentence names; whether there is one. */
export function sayAt(forms, message) {
  for (const form of forms) form.say("");
  const names = [...message.matchAll(/'([^']+)'/g)].map(([, name]) => name);
  const found = names.map((name) => forms.find((form) => form.name.value.trim() === name || form.column?.name === name)).find(Boolean);
  found?.say(message);
  return Boolean(found);
}
