// The grid of rows that can be changed: which cells are marked, and what keys and clicks do.

import { announce } from "../dom.js";
import { Grid } from "../grid.js";
import { openEditor } from "./cell_editor.js";
import { openFileCell } from "./file_cell.js";

export class RowEditor {
  constructor(changes, name, options) {
    this.changes = changes;
    this.grid = new Grid(changes, { label: `Rows of ${name}`, edit: this, ...options });
    this.element = this.grid.element;
    this.refresh = () => this.grid.refresh();
    changes.addEventListener("change", this.refresh);
  }

  start() { this.grid.start(); }
  stop() { this.grid.stop(); this.changes.removeEventListener("change", this.refresh); }
  get at() { return this.grid.at; }
  go(cell) { this.grid.go(cell); this.element.focus({ preventScroll: true }); }

  /** The sign and the word of a row that differs; null for one that is as it was read. */
  stateOf(row) {
    if (this.changes.isAdded(row)) return { sign: "+", word: "added" };
    if (this.changes.isDeleted(row)) return { sign: "−", word: "deleted" };
    return this.changes.isChanged(row) ? { sign: "•", word: "changed" } : null;
  }

  classOf(row, place) {
    const { name } = this.changes.columns[place];
    return [this.changes.isCellChanged(row, name) ? "edited" : "", this.changes.problem(row, name) ? "wrong" : "", this.changes.canEdit(row, name) ? "" : "fixed",
      this.changes.isAdded(row) && !this.changes.isCellChanged(row, name) ? "none" : ""].filter(Boolean).join(" ");
  }

  noteOf(row, place) { return this.changes.problem(row, this.changes.columns[place].name); }
  canEdit(row, place) { return this.changes.canEdit(row, this.changes.columns[place].name); }

  /** What a key does on a cell; whether it did something. */
  key(event, cell) {
    if (!this.changes.rows || event.ctrlKey || event.metaKey || event.altKey) return false;
    const isTyped = event.key.length === 1 && event.key !== " ";
    if (event.key === "Delete" || event.key === "Backspace") this.#clear(cell);
    else if (event.key === "Enter" || event.key === "F2" || isTyped) this.open(cell, isTyped ? event.key : null);
    else return false;
    event.preventDefault();
    return true;
  }

  /** Open the editor of a cell; `seed` is what was typed to begin with. */
  open(cell, seed = null) {
    if (!this.changes.rows) return;
    const { name, column } = this.changes.columns[cell.column];
    if (!this.changes.canEdit(cell.row, name)) {
      announce(`${name} of this row cannot be changed here`);
      if (seed === null) this.grid.look();
      return;
    }
    if (column.kind === "file") { openFileCell({ changes: this.changes, row: cell.row, name, onLeave: () => this.element.focus({ preventScroll: true }) }); return; }
    const before = this.changes.value(cell.row, name);
    openEditor({
      place: this.grid.body, box: this.grid.boxOf(cell), column, text: before ?? null, seed,
      onTake: (text, move) => {
        // A cell that was only looked at stays as it was; a new row's stays left out.
        if (text !== (before ?? null)) this.changes.set(cell.row, name, text);
        const problem = this.changes.problem(cell.row, name);
        if (problem) announce(`${name}: ${problem}`);
        if (move) this.#move(cell, move);
      },
      onLeave: () => this.element.focus({ preventScroll: true }),
    });
  }

  // Tab goes on in the next row, and from the last row Enter stays.
  #move({ row, column }, { down, right }) {
    const wide = this.changes.columns.length;
    const place = row * wide + column + right;
    const last = this.changes.rows * wide - 1;
    const next = Math.min(Math.max(place, 0), last);
    this.go({ row: Math.floor(next / wide) + down, column: next % wide });
  }

  #clear({ row, column }) {
    const { name } = this.changes.columns[column];
    if (this.changes.canEdit(row, name)) this.changes.set(row, name, null);
  }
}
