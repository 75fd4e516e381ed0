// A grid over a result of any length: only visible cells are elements. Role grid, one tab stop, arrow keys move.
// A click on the head of a column, or the key S, calls `onHead` with its name and its place; `order`, {place, descending}, is what the rows are in the order of.
// Rules: text only; a row is read from the result when it becomes visible. What cells look like while they are edited, and
// what keys and clicks on them do then, is handed in (edit/row_editor.js).

import { announce, fill, h, unseen } from "./dom.js";
import { count } from "./format.js";
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "./vendor.js";

const ROW = 28;
const HEAD = 46; // the name of a column, and its type below it
const LONGEST = 400;

export class Grid {
  #virtual = {};
  #cell = { row: 0, column: 0 };
  #drawn = new Map();
  #dispose = [];
  #grown = new Map();

  constructor(result, { label = "Result", edit = null, order = null, onHead = null } = {}) {
    this.result = result;
    this.edit = edit;
    this.order = order;
    this.onHead = onHead;
    this.widths = result.columns.map((column) => widthOf(column));
    const digits = String(result.rows).length;
    this.gutter = (edit ? 40 : 22) + digits * 8;
    this.heads = h("div", { class: "grid-head", role: "row", "aria-rowindex": 1, on: { click: (event) => { const head = event.target.closest("[data-head]"); if (head) onHead?.(result.columns[head.dataset.head].name, Number(head.dataset.head)); } } });
    this.heads.classList.toggle("choosing", onHead !== null);
    this.body = h("div", { class: "grid-body", role: "presentation" });
    this.element = h("div", {
      class: "grid", role: "grid", tabindex: 0, "aria-label": label, "aria-readonly": String(!edit),
      "aria-rowcount": result.rows + 1, "aria-colcount": result.columns.length + 1,
      on: { keydown: (event) => this.#key(event), mousedown: (event) => this.#click(event), dblclick: () => { if (!edit) this.look(); }, focus: () => this.#mark(true), copy: (event) => this.#copy(event) },
    }, this.heads, this.body);
  }

  /** Start to follow the scroll position; the element must be in the document. */
  start() {
    const shared = { getScrollElement: () => this.element, observeElementRect, observeElementOffset, scrollToFn: elementScroll, onChange: () => this.#draw() };
    this.#virtual.rows = new Virtualizer({ ...shared, count: this.result.rows, estimateSize: () => ROW, overscan: 8, paddingStart: HEAD, scrollPaddingStart: HEAD });
    this.#virtual.columns = new Virtualizer({
      ...shared, horizontal: true, count: this.widths.length, estimateSize: (place) => this.widths[place], overscan: 2,
      paddingStart: this.gutter, scrollPaddingStart: this.gutter,
    });
    for (const virtual of Object.values(this.#virtual)) { this.#dispose.push(virtual._didMount()); virtual._willUpdate(); }
    this.#draw();
  }

  stop() {
    for (const dispose of this.#dispose.splice(0)) dispose?.();
  }

  /** The current cell: {row, column}. */
  get at() { return { ...this.#cell }; }

  /** Make a cell the current one, as far as there is one, and show it. */
  go({ row, column }) {
    this.#cell = { row: clamp(row, this.result.rows - 1), column: clamp(column, this.result.columns.length - 1) };
    this.#show();
    this.#mark(false);
  }

  /** The values, or the number of rows, have changed. */
  refresh() {
    const { rows } = this.#virtual;
    if (!rows) return;
    this.#forget();
    rows.setOptions({ ...rows.options, count: this.result.rows });
    rows.measure();
    this.element.setAttribute("aria-rowcount", this.result.rows + 1);
    this.go(this.#cell);
    this.#draw();
  }

  /** The box of a cell, inside the grid's body. */
  boxOf({ row, column }) {
    return { top: row * ROW, left: this.gutter + this.widths.slice(0, column).reduce((sum, width) => sum + width, 0), width: this.widths[column], height: ROW };
  }

  #forget() {
    for (const { element } of this.#drawn.values()) element.remove();
    this.#drawn.clear();
  }

  #draw() {
    const { rows, columns } = this.#virtual;
    if (!rows || !columns) return;
    const across = columns.getVirtualItems();
    const width = `${columns.getTotalSize()}px`;
    this.body.style.height = `${Math.max(rows.getTotalSize() - HEAD, 0)}px`;
    this.body.style.width = this.heads.style.width = width;
    fill(this.heads, this.#corner(), across.map((item) => this.#head(item)));
    const wanted = new Set();
    const key = across.map((item) => item.index).join();
    for (const item of rows.getVirtualItems()) {
      wanted.add(item.index);
      let line = this.#drawn.get(item.index);
      if (!line || line.key !== key) {
        line?.element.remove();
        line = { key, element: this.#row(item.index, item.start - HEAD, across) };
        this.#drawn.set(item.index, line);
        this.body.append(line.element);
      }
    }
    if (this.#grown.size) { this.#widen(); return; }
    for (const [index, line] of this.#drawn) if (!wanted.has(index)) { line.element.remove(); this.#drawn.delete(index); }
    this.#mark(false);
  }

  // A number without its last digits would be wrong: a column grows with its visible values.
  #widen() {
    for (const [place, wide] of this.#grown) this.widths[place] = wide;
    this.#grown.clear();
    this.#forget();
    this.#virtual.columns.measure(); // draws again
  }

  #corner() {
    return h("div", { class: "cell gutter", role: "columnheader", "aria-colindex": 1 }, unseen("Row"));
  }

  #head(item) {
    const column = this.result.columns[item.index];
    const sorted = this.order?.place === item.index ? this.order : null;
    return placed(h("div", { class: `cell head${column.isRight ? " right" : ""}`, role: "columnheader", "aria-colindex": item.index + 2, "data-head": item.index, "aria-sort": sorted ? (sorted.descending ? "descending" : "ascending") : null, title: `${column.name} (${column.typeName})` },
      h("span", { class: "name-line" }, h("span", { class: "name" }, column.name || "(no name)"), sorted ? h("span", { class: "sorted", "aria-hidden": "true" }, sorted.descending ? "↓" : "↑") : null),
      " ", h("span", { class: "type" }, column.typeName)), item);
  }

  #row(index, top, across) {
    const state = this.edit?.stateOf(index) ?? null;
    const gutter = h("div", { class: "cell gutter", role: "rowheader", "aria-colindex": 1, "aria-label": state ? `${count(index + 1)}, ${state.word}` : null }, state ? h("span", { class: "sign" }, state.sign) : null, count(index + 1));
    const cells = across.map((item) => {
      const column = this.result.columns[item.index];
      const text = column.text(index);
      if (column.kind !== "text" && text !== null && room(text) > (this.#grown.get(item.index) ?? this.widths[item.index])) this.#grown.set(item.index, room(text));
      const shown = text === null ? "null" : oneLine(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
      return placed(h("div", {
        class: `cell${column.isRight ? " right" : ""}${text === null ? " none" : ""}${this.edit ? ` ${this.edit.classOf(index, item.index)}` : ""}`, role: "gridcell",
        title: this.edit?.noteOf(index, item.index) ?? null, "aria-invalid": this.edit?.noteOf(index, item.index) ? "true" : null, "aria-readonly": this.edit ? String(!this.edit.canEdit(index, item.index)) : null,
        id: `cell-${index}-${item.index}`, "aria-colindex": item.index + 2, "data-row": index, "data-column": item.index,
      }, shown), item);
    });
    const element = h("div", { class: `grid-row${index % 2 ? " odd" : ""}${state ? ` ${state.word}` : ""}`, role: "row", "aria-rowindex": index + 2 }, gutter, cells);
    element.style.transform = `translateY(${top}px)`;
    return element;
  }

  #mark(moved) {
    if (this.result.rows === 0) return;
    const { row, column } = this.#cell;
    this.element.querySelector(".cell.at")?.classList.remove("at");
    const cell = this.element.querySelector(`#cell-${row}-${column}`);
    cell?.classList.add("at");
    if (cell) this.element.setAttribute("aria-activedescendant", cell.id);
    else this.element.removeAttribute("aria-activedescendant");
    if (moved && !cell) this.#show();
  }

  #show() {
    this.#virtual.rows.scrollToIndex(this.#cell.row, { align: "auto" });
    this.#virtual.columns.scrollToIndex(this.#cell.column, { align: "auto" });
  }

  #click(event) {
    const cell = event.target.closest("[data-row]");
    if (!cell) return;
    const { row, column } = this.#cell;
    this.#cell = { row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
    this.#mark(false);
    const isAgain = row === this.#cell.row && column === this.#cell.column && this.element.contains(document.activeElement);
    if (this.edit && isAgain) { event.preventDefault(); this.edit.open(this.#cell); }
  }

  #key(event) {
    if (event.target !== this.element || this.edit?.key(event, this.#cell)) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const last = { row: this.result.rows - 1, column: this.result.columns.length - 1 };
    const { row, column } = this.#cell;
    const far = event.ctrlKey || event.metaKey;
    const next = {
      ArrowDown: [far ? last.row : row + 1, column], ArrowUp: [far ? 0 : row - 1, column],
      ArrowRight: [row, far ? last.column : column + 1], ArrowLeft: [row, far ? 0 : column - 1],
      PageDown: [row + page, column], PageUp: [row - page, column],
      Home: [far ? 0 : row, 0], End: [far ? last.row : row, last.column],
    }[event.key];
    if (event.key === "Enter" && !far) this.look();
    if (event.key === "s" && !far && !event.altKey && !this.edit) this.onHead?.(this.result.columns[column].name, column);
    if (!next || last.row < 0) return;
    event.preventDefault();
    this.#cell = { row: clamp(next[0], last.row), column: clamp(next[1], last.column) };
    this.#show();
    this.#mark(false);
  }

  #value() {
    return this.result.rows ? this.result.columns[this.#cell.column].text(this.#cell.row) : null;
  }

  #copy(event) {
    if (event.target !== this.element || !getSelection().isCollapsed) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", this.#value() ?? "");
    announce("Value copied");
  }

  /** Show the complete value of the current cell, which may be too long for its column. */
  look() {
    if (!this.result.rows) return;
    const column = this.result.columns[this.#cell.column];
    const close = () => { dialog.close(); dialog.remove(); this.element.focus({ preventScroll: true }); };
    const dialog = h("dialog", { class: "look", "aria-label": "Value", on: { cancel: (event) => { event.preventDefault(); close(); } } },
      h("h2", {}, column.name, h("span", { class: "type" }, `row ${count(this.#cell.row + 1)}, ${column.typeName}`)),
      h("pre", { tabindex: 0 }, this.#value() ?? "null"),
      h("div", { class: "row" }, column.more?.(this.#cell.row) ?? null, h("button", { type: "button", on: { click: close } }, "Close")));
    document.body.append(dialog);
    dialog.showModal();
  }
}

// A cell has one line: a mark, which is not part of the text, shows a line break.
const oneLine = (text) => text.split(/\r\n|[\r\n]/).flatMap((line, place) => (place ? [h("span", { class: "break", title: "line break" }, "↵"), line] : [line]));

const clamp = (value, last) => Math.max(Math.min(value, last), 0);

function placed(element, item) {
  element.style.left = `${item.start}px`;
  element.style.width = `${item.size}px`;
  return element;
}

// Wide enough for the name, the complete type and the first values, within limits.
function widthOf(column) {
  const name = Math.min(inPixels(column.name, "650 13px") + 16, LONGEST_NAME); // with the arrow of an order
  const type = Math.min(inPixels(column.typeName, "400 12px"), LONGEST_TYPE);
  let longest = 4;
  for (let row = 0; row < Math.min(column.length, 60); row += 1) longest = Math.max(longest, (column.text(row) ?? "null").length);
  return Math.round(Math.max(Math.min(longest * LETTER + EDGES, 340), name + EDGES, type + EDGES, 72));
}

let ruler = null;

function inPixels(text, font) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(ruler.measureText(text).width) + 1;
}

const LONGEST_NAME = 320;
const LONGEST_TYPE = 560;
const LETTER = 7.9;
const EDGES = 22;
const room = (text) => Math.round(text.length * LETTER + EDGES);
