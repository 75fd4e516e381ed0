// The rows of a table as they were read, with the changes that are not saved yet. No element is made here.
// Rules: null and "left out" differ; a cell with the value that was read is no change; what is sent names the version of
// every row that was read, so that it is applied as one version or not at all.

import { fragmentOf, isSame, isWritable, labelOf, problemOf } from "./column_types.js";
import { listOf, objectOf } from "./exact_json.js";

const ID = "_row_id";
const VERSION = "_version";

export class Changes extends EventTarget {
  #result;
  #cells = new Map(); // row → Map(name → text or null)
  #deleted = new Set();
  #added = []; // Map(name → text or null); a name that is left out has the column's default
  #byName;
  #now = new Map(); // row → {version, cells: {name: text}}: newer than the result, after a conflict

  /** `result`: rows that begin with their ids and versions; `detail`: their table. */
  constructor(result, detail) {
    super();
    this.#result = result;
    this.detail = detail;
    this.key = detail.row_ids ? [ID] : detail.key;
    const known = new Map(detail.columns.map((column) => [column.name, column]));
    this.hidden = new Map(result.columns.filter(({ name }) => !known.has(name) && [ID, VERSION].includes(name)).map((column) => [column.name, column]));
    this.columns = result.columns.filter(({ name }) => !this.hidden.has(name)).map((column) => new ShownColumn(this, column, known.get(column.name) ?? null));
    this.#byName = new Map(this.columns.map((column) => [column.name, column]));
    this.cut = result.cut;
  }

  get rows() { return this.#result.rows + this.#added.length; }
  get known() { return this.#result.rows; }
  isAdded(row) { return row >= this.#result.rows; }
  isDeleted(row) { return this.#deleted.has(row); }
  isChanged(row) { return this.#cells.has(row); }

  /** The value that was read, as text or null. */
  was(row, name) {
    if (this.isAdded(row)) return null;
    const now = this.#now.get(row);
    if (now) return now.cells[name] ?? null;
    return this.#column(name).source.text(row);
  }

  /** The value with the changes; undefined if a new row leaves it out. */
  value(row, name) {
    if (this.isAdded(row)) return this.#added[row - this.#result.rows].get(name);
    const cells = this.#cells.get(row);
    return cells?.has(name) ? cells.get(name) : this.was(row, name);
  }

  isCellChanged(row, name) {
    return this.isAdded(row) ? this.value(row, name) !== undefined : Boolean(this.#cells.get(row)?.has(name));
  }

  /** Whether the page can change the cell: the key of a row that exists is fixed. */
  canEdit(row, name) {
    const { column } = this.#column(name);
    return column !== null && isWritable(column) && !this.isDeleted(row) && (this.isAdded(row) || !this.key.includes(name));
  }

  /** Why a cell cannot be saved; null if it can. */
  problem(row, name) {
    const { column } = this.#column(name);
    if (column === null || this.isDeleted(row) || !this.isCellChanged(row, name) && !this.isAdded(row)) return null;
    const value = this.value(row, name);
    if (value !== undefined) return problemOf(value, column);
    return column.nullable === false && (column.default ?? null) === null ? "this column needs a value" : null;
  }

  set(row, name, text) {
    if (this.isAdded(row)) this.#added[row - this.#result.rows].set(name, text);
    else if (isSame(text, this.was(row, name), this.#column(name).column)) this.#unset(row, name);
    else {
      if (!this.#cells.has(row)) this.#cells.set(row, new Map());
      this.#cells.get(row).set(name, text);
    }
    this.#changed();
  }

  /** Give a cell the value that was read, or leave it out of a new row. */
  unset(row, name) {
    if (this.isAdded(row)) this.#added[row - this.#result.rows].delete(name);
    else this.#unset(row, name);
    this.#changed();
  }

  /** Add a row at the end, with some values; returns its place. */
  add(cells = {}) {
    this.#added.push(new Map(Object.entries(cells)));
    this.#changed();
    return this.rows - 1;
  }

  /** Delete a row, or keep one that was to be deleted; a new row just goes. */
  remove(row) {
    if (this.isAdded(row)) this.#added.splice(row - this.#result.rows, 1);
    else if (!this.#deleted.delete(row)) { this.#deleted.add(row); this.#cells.delete(row); }
    this.#changed();
  }

  /** Take all changes of a row back. */
  forget(row) {
    this.#cells.delete(row);
    this.#deleted.delete(row);
    this.#changed();
  }

  discard() {
    this.#cells.clear();
    this.#deleted.clear();
    this.#added.length = 0;
    this.#changed();
  }

  /** Others have changed the row: from now on it was read as {version, cells: {name: text}}. */
  rebase(row, now) {
    this.#now.set(row, now);
    const cells = this.#cells.get(row);
    for (const [name, text] of cells ?? []) if (isSame(text, this.was(row, name), this.#column(name).column)) this.#unset(row, name);
    this.#changed();
  }

  get counts() {
    const cells = [...this.#cells.values()].reduce((sum, row) => sum + row.size, 0);
    return { cells, rows: this.#cells.size, added: this.#added.length, deleted: this.#deleted.size };
  }

  get isEmpty() { return !this.#cells.size && !this.#deleted.size && !this.#added.length; }

  /** The rows that exist and are changed or deleted. */
  get touched() { return [...new Set([...this.#cells.keys(), ...this.#deleted])].sort((one, other) => one - other); }

  /** The names of the cells of a row that are changed. */
  cellsOf(row) { return [...(this.#cells.get(row)?.keys() ?? [])]; }

  /** What cannot be saved: [{row, name, problem}]. */
  get problems() {
    const places = [...this.#cells.keys(), ...this.#added.map((_, place) => this.#result.rows + place)];
    return places.flatMap((row) => this.columns.map(({ name }) => ({ row, name, problem: this.problem(row, name) }))).filter(({ problem }) => problem !== null);
  }

  versionOf(row) { return this.#now.get(row)?.version ?? Number(this.hidden.get(VERSION).text(row)); }

  /** The name of a row in an address: its id, or its key as a JSON array of texts. */
  nameOf(row) {
    return this.detail.row_ids ? this.hidden.get(ID).text(row) : JSON.stringify(this.key.map((name) => this.#column(name).source.named(row)));
  }

  /** The body of one partial row set. */
  body(message = "") {
    const named = (row) => ({ ...this.#identity(row), [VERSION]: String(this.versionOf(row)) });
    const fragments = (cells) => Object.fromEntries([...cells].map(([name, text]) => [name, fragmentOf(text, this.#column(name).column)]));
    return objectOf({
      rows: listOf([...this.#cells].map(([row, cells]) => objectOf({ ...named(row), ...fragments(cells) }))),
      new: listOf(this.#added.map((cells) => objectOf(fragments(cells)))),
      delete: listOf([...this.#deleted].map((row) => objectOf(named(row)))),
      message: JSON.stringify(message),
    });
  }

  #identity(row) {
    if (this.detail.row_ids) return { [ID]: this.hidden.get(ID).text(row) };
    return Object.fromEntries(this.key.map((name) => [name, fragmentOf(this.#column(name).source.named(row), this.#column(name).column)]));
  }

  #unset(row, name) {
    const cells = this.#cells.get(row);
    cells?.delete(name);
    if (cells?.size === 0) this.#cells.delete(row);
  }

  #column(name) { return this.#byName.get(name); }
  #changed() { this.dispatchEvent(new Event("change")); }
}

// A column of the grid, with the changes in it; `more(row)`, if it is set, makes what else is shown of a value.
class ShownColumn {
  more = null;

  constructor(changes, source, column) {
    Object.assign(this, { changes, source, column, name: source.name, kind: source.kind, isRight: source.isRight });
  }

  get typeName() { return this.column?.kind ?? this.source.typeName; }
  get length() { return this.changes.rows; }

  text(row) {
    const value = this.changes.value(row, this.name);
    return value === undefined ? this.left : labelOf(value, this.column);
  }

  // What a new row has where nothing was entered.
  get left() {
    const found = this.column?.default;
    return found === null || found === undefined ? null : String(found);
  }
}
