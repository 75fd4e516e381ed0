// The rows of a table, found and put in order by conditions and columns. Where they have ids or a key they can be edited: all changes are collected, and saved as one version.
// Rules: changes that are not saved stay while the page is open, also in other views. Saving names the versions that were
// read; rows that others have changed meanwhile are shown side by side, and nothing of the set is applied. The address has the condition and the order.

import * as api from "../api.js";
import { announce, byFinger, disable, fill, h } from "../dom.js";
import { Changes } from "../edit/changes.js";
import { conflictsOf, openConflicts } from "../edit/conflicts.js";
import { Once } from "../edit/once.js";
import { openRowHistory } from "../edit/row_history.js";
import { RowEditor } from "../edit/row_editor.js";
import { button } from "../edit/dialogs.js";
import { offerDownloads } from "../edit/file_cell.js";
import { failure } from "../failure.js";
import { count, many } from "../format.js";
import { Grid } from "../grid.js";
import { Latest } from "../latest.js";
import { decode } from "../result.js";
import { toTable } from "../route.js";
import { arrowBytes } from "../stream.js";
import { ByColumn } from "./by_column.js";

const LIMIT = 1_000;

const EDITING = byFinger ? "Tap a cell, then Edit cell." : "Enter or a letter edits a cell, Delete makes it null, Tab goes on.";

export class RowsTab {
  #latest = new Latest();
  #part = null;
  #changes = null;
  #editing = false;
  #once = new Once();

  /** `options` are those of the address; `onSaved(version)` is called after each version that was saved. */
  constructor(detail, { options, mayWrite, onSaved }) {
    Object.assign(this, { detail, onSaved });
    this.hasIdentity = Boolean(detail.row_ids || detail.key?.length);
    this.mayEdit = mayWrite && this.hasIdentity;
    this.minVersion = detail.version;
    this.condition = h("input", { type: "text", id: "rows-where", placeholder: "price > 10 AND name = 'bolt'", autocomplete: "off", autocapitalize: "off", spellcheck: "false", value: options.where ?? "" });
    this.order = options.order === undefined ? null : { column: options.order, descending: options.descending === "true" };
    this.byColumn = new ByColumn({
      name: detail.name, where: () => this.condition.value, minVersion: () => this.minVersion,
      onCondition: (sql) => { this.condition.value = sql; this.load(); }, onOrder: (order) => this.load({ order }),
    });
    this.editButton = h("button", { type: "button", id: "rows-edit", "aria-pressed": "false", on: { click: () => this.#edit(!this.#editing) } }, "Edit");
    this.historyButton = button("Row history", () => this.#history());
    this.tools = h("div", { class: "row edit-tools", hidden: true }, button("Edit cell", () => this.#part.open(this.#part.at)), button("Add row", () => this.#add()), this.removeButton = button("Delete row", () => this.#remove()));
    this.summary = h("p", { class: "edit-summary", role: "status" });
    this.saveButton = button("Save", () => this.#save(), "primary");
    this.discardButton = button("Discard", () => this.#discard());
    this.pending = h("div", { class: "pending", hidden: true }, this.summary, h("span", { class: "grow" }), this.discardButton, this.saveButton);
    this.said = h("div", { class: "edit-said" });
    this.state = h("p", { class: "hint", id: "rows-state", role: "status" });
    this.place = h("div", { class: "rows-place" });
    this.element = h("div", { class: "rows-tab" },
      h("form", { class: "row rows-bar", on: { submit: (event) => { event.preventDefault(); this.load(); } } },
        h("label", { class: "field rows-where" }, h("span", { class: "label" }, "Rows where (SQL)"), this.condition), h("button", { type: "submit" }, "Show"), this.byColumn.element, h("span", { class: "grow" }),
        this.hasIdentity ? this.historyButton : null, this.mayEdit ? this.editButton : null),
      this.tools, this.said, this.state, this.place, this.pending);
  }

  start() {
    if (this.#changes) { this.#address(); this.#draw(); }
    else this.load({ isStep: false });
  }

  stop() { this.#part?.stop(); }

  get hasChanges() { return this.#changes !== null && !this.#changes.isEmpty; }

  async load({ order = this.order, isStep = true } = {}) {
    if (this.#isKept()) return;
    this.order = order;
    this.#address({ isStep });
    const run = this.#latest.begin();
    this.place.setAttribute("aria-busy", "true");
    try {
      const response = await api.rowsOf(this.detail, { where: this.condition.value, by: order, limit: LIMIT + 1, minVersion: this.minVersion, signal: run.signal });
      const result = decode(await arrowBytes(response, () => {}), LIMIT);
      if (!run.isCurrent()) return;
      this.place.removeAttribute("aria-busy");
      if (this.#isKept()) return; // a cell was changed meanwhile
      const at = this.#part?.at;
      this.#changes = new Changes(result, this.detail);
      this.byColumn.columns = this.#changes.columns.map(({ name, kind, source }) => ({ name, kind, typeName: source.typeName }));
      this.#changes.addEventListener("change", () => this.#count());
      offerDownloads(this.#changes);
      this.tools.hidden = !this.#editing;
      this.#say();
      this.#draw(at);
    } catch (error) {
      if (!run.isCurrent() || error.name === "AbortError") return;
      if (!this.#changes) fill(this.place);
      this.#say(failure(error));
    }
    if (run.isCurrent()) this.place.removeAttribute("aria-busy");
  }

  // What is shown is in the address; what somebody chose is a step of the browser's history.
  #address({ isStep = false } = {}) {
    if (!location.hash.startsWith(toTable(this.detail.name, "rows"))) return; // another view is shown
    const where = this.condition.value.trim();
    const link = toTable(this.detail.name, "rows", { ...(where ? { where } : {}), ...(this.order ? { order: this.order.column, ...(this.order.descending ? { descending: "true" } : {}) } : {}) });
    if (link !== location.hash) history[isStep ? "pushState" : "replaceState"](null, "", link);
  }

  // Other rows never take the place of changes that are not saved.
  #isKept() {
    if (this.hasChanges) this.#say(h("p", { class: "notice-line", role: "alert" }, "Save or discard the changes first: other rows take their place."));
    return this.hasChanges;
  }

  #draw(at = null) {
    this.#part?.stop();
    const changes = this.#changes;
    const heads = { order: this.order && { ...this.order, place: changes.columns.findIndex((column) => column.name === this.order.column) }, onHead: (name) => this.byColumn.open(name) };
    this.#part = this.#editing ? new RowEditor(changes, this.detail.name, heads) : new Grid(changes, { label: `Rows of ${this.detail.name}`, ...heads });
    fill(this.place, this.#part.element, changes.rows === 0 ? h("p", { class: "empty" }, "No rows.") : null);
    this.#part.start();
    if (at && changes.rows) this.#part.go(at);
    this.#count();
  }

  #edit(wanted) {
    if (!wanted && this.hasChanges) { this.#say(h("p", { class: "notice-line", role: "alert" }, "Save or discard the changes first.")); return; }
    this.#editing = wanted;
    this.editButton.setAttribute("aria-pressed", String(wanted));
    fill(this.editButton, wanted ? "Done" : "Edit");
    if (!this.#changes) return;
    this.tools.hidden = !wanted;
    this.#say();
    this.#draw(this.#part?.at);
  }

  #count() {
    const changes = this.#changes;
    const { cells, rows, added, deleted } = changes.counts;
    const known = changes.known;
    const text = changes.cut ? `The first ${count(LIMIT)} rows: a condition finds others` : many(known, "row");
    fill(this.state, this.#editing ? `${text}. ${EDITING}` : text);
    fill(this.summary, [cells ? `${many(cells, "cell")} changed in ${many(rows, "row")}` : "", added ? `${many(added, "row")} added` : "", deleted ? `${many(deleted, "row")} deleted` : ""].filter(Boolean).join(", "));
    this.pending.hidden = changes.isEmpty;
    if (changes.rows && this.place.querySelector(".empty")) fill(this.place, this.#part.element);
  }

  #add() {
    const row = this.#changes.add();
    const first = this.#changes.columns.findIndex(({ name }) => this.#changes.canEdit(row, name));
    this.#part.go({ row, column: Math.max(first, 0) });
    announce("Row added");
  }

  #remove() {
    if (!this.#changes.rows) return;
    const { row } = this.#part.at;
    this.#changes.remove(row);
    announce(this.#changes.isDeleted(row) ? "The row will be deleted" : "The row stays");
    this.#part.go(this.#part.at);
  }

  #discard() {
    this.#changes.discard();
    this.#say();
    this.#draw(this.#part.at);
    announce("Changes discarded");
  }

  #history() {
    const changes = this.#changes;
    const row = changes?.rows ? this.#part.at.row : null;
    const isKnown = row !== null && !changes.isAdded(row);
    openRowHistory({
      detail: this.detail, row: isKnown ? changes.nameOf(row) : "", minVersion: this.minVersion,
      onRestore: this.mayEdit ? (name, cells, isGone) => this.#restore(name, cells, isGone) : null,
    });
  }

  // A former version is a change of today's row like any other; a row that is gone comes back as a new one.
  #restore(name, cells, isGone) {
    if (!this.#editing) this.#edit(true);
    const changes = this.#changes;
    if (!changes) return;
    const row = Array.from({ length: changes.known }, (_, place) => place).find((place) => changes.nameOf(place) === name);
    const known = changes.columns.filter(({ column, name: own }) => column && own in cells);
    if (row === undefined && !isGone) {
      this.#say(h("p", { class: "notice-line", role: "alert" }, "This row is not among those that are shown: find it with a condition, then restore it."));
      return;
    }
    if (row === undefined) {
      const place = changes.add(Object.fromEntries(known.filter(({ name: own }) => changes.canEdit(changes.rows, own)).map(({ name: own }) => [own, cells[own]])));
      this.#part.go({ row: place, column: 0 });
    } else {
      if (changes.isDeleted(row)) changes.remove(row);
      for (const { name: own } of known) if (changes.canEdit(row, own)) changes.set(row, own, cells[own]);
      this.#part.go({ row, column: 0 });
    }
    announce("The former values are in the grid: save them, or discard them");
  }

  async #save() {
    const changes = this.#changes;
    const wrong = changes.problems;
    if (wrong.length) {
      this.#say(problems(wrong, (one) => this.#part.go({ row: one.row, column: changes.columns.findIndex(({ name }) => name === one.name) })));
      return;
    }
    const body = changes.body();
    const isHere = this.pending.contains(document.activeElement);
    this.#busy(true);
    try {
      const job = await api.changeRows(this.detail.name, body, this.#once.keyFor(body));
      this.#once.ended();
      this.minVersion = job.version ?? this.minVersion;
      this.onSaved(this.minVersion);
      changes.discard();
      await this.load();
      this.#say(h("p", { class: "saved", role: "status" }, `Saved as version ${count(this.minVersion)}.`), [...this.said.childNodes]);
    } catch (error) {
      this.#once.ended(error);
      await this.#refused(error, isHere);
    }
    this.#ended(isHere);
  }

  // The focus of a button that is hidden now goes to the rows.
  #ended(isHere) {
    this.#busy(false);
    if (isHere && document.activeElement === document.body) this.#part.element.focus({ preventScroll: true });
  }

  async #refused(error, isHere) {
    const changes = this.#changes;
    this.#say(failure(error));
    if (!["conflict", "not_found"].includes(error.detail.error)) return;
    try {
      const found = await conflictsOf(this.detail, changes, error);
      this.#ended(isHere); // the dialog gives the focus back
      if (found.length) openConflicts({ changes, conflicts: found, onChoose: () => { this.#say(); if (!changes.isEmpty) this.#save(); else this.load(); } });
    } catch (other) {
      this.#say(failure(error), failure(other));
    }
  }

  #say(...nodes) {
    fill(this.said, nodes);
    if (nodes.length) this.said.scrollIntoView({ block: "nearest" });
  }

  #busy(busy) {
    for (const one of [this.saveButton, this.discardButton, ...this.tools.querySelectorAll("button")]) disable(one, busy);
    this.place.inert = busy;
  }
}

function problems(wrong, go) {
  const shown = wrong.slice(0, 20);
  return h("div", { class: "failure", role: "alert" }, h("p", { class: "failure-title" }, `${many(wrong.length, "cell")} cannot be saved`),
    h("ul", {}, shown.map((one) => h("li", {}, h("button", { type: "button", class: "link", on: { click: () => go(one) } }, `Row ${count(one.row + 1)}, ${one.name}`), `: ${one.problem}`))),
    wrong.length > shown.length ? h("p", { class: "hint" }, `${count(wrong.length - shown.length)} more`) : null);
}
