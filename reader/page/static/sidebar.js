// The tables next to the console, with their columns; a click inserts a name into the editor.

import { fill, h } from "./dom.js";
import { count, quoted } from "./format.js";

export class Sidebar {
  #open = new Set();

  constructor({ catalogue, onInsert, onQuery }) {
    Object.assign(this, { catalogue, onInsert, onQuery });
    this.list = h("ul", { class: "side-list" }, Array.from({ length: 4 }, () => h("li", { class: "waiting line", "aria-hidden": "true" })));
    this.element = h("aside", { class: "sidebar", "aria-label": "Tables" }, h("details", { open: !matchMedia("(max-width: 760px)").matches }, h("summary", {}, "Tables"), this.list));
    catalogue.addEventListener("change", () => this.draw());
    catalogue.addEventListener("described", () => this.draw());
  }

  draw() {
    const { tables, error, loaded } = this.catalogue;
    if (!loaded) { if (error) fill(this.list, h("li", { class: "hint" }, error.message)); return; }
    const columns = new Map(this.catalogue.described.map((table) => [table.name, table.columns]));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(this.list, tables.map((table) => this.#table(table, columns.get(table.name))), tables.length ? null : h("li", { class: "hint" }, "No tables yet."));
    if (focused) this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #table(table, columns) {
    const details = h("details", { open: this.#open.has(table.name), on: { toggle: () => { if (details.open) this.#open.add(table.name); else this.#open.delete(table.name); } } },
      h("summary", { "data-key": `t:${table.name}` }, h("span", { class: `dot ${table.level}`, title: table.status }), h("span", { class: "side-name" }, table.name), h("span", { class: "dim" }, count(table.rows))),
      h("div", { class: "side-acts" },
        h("button", { type: "button", class: "link", "data-key": `q:${table.name}`, on: { click: () => this.onQuery(`SELECT *\nFROM ${quoted(table.name)}\nLIMIT 1000`) } }, "First rows"),
        h("button", { type: "button", class: "link", "data-key": `i:${table.name}`, on: { click: () => this.onInsert(quoted(table.name)) } }, "Insert name")),
      h("ul", {}, (columns ?? []).map((column) => h("li", {}, h("button", { type: "button", class: "column", "data-key": `c:${table.name}:${column.name}`, title: `Insert ${column.name} (${column.type})`, on: { click: () => this.onInsert(quoted(column.name)) } },
        h("span", { class: "side-name" }, column.name), h("span", { class: "type" }, column.type))))));
    return h("li", {}, details);
  }
}
