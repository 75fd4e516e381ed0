// All tables: size, rows, version, freshness, health. A token that may write can create one.

import { fill, h, refill } from "../dom.js";
import { droppedNotice } from "../edit/alter_table.js";
import { openNewTable } from "../edit/new_table.js";
import { failure } from "../failure.js";
import { bytes, count, duration, many, quoted } from "../format.js";
import { mayDefine } from "../rights.js";
import { toConsole, toTable } from "../route.js";

export class TablesView {
  constructor(section, { catalogue }) {
    this.catalogue = catalogue;
    this.filter = h("input", { type: "search", placeholder: "Find a table", "aria-label": "Find a table", on: { input: () => this.draw() } });
    this.create = h("button", { type: "button", class: "primary", id: "new-table", hidden: true, on: { click: () => openNewTable({ onCreated: () => catalogue.refresh() }) } }, "New table");
    this.dropped = h("div", {});
    this.summary = h("p", { class: "hint" });
    this.list = h("div", { class: "cards", role: "list", "aria-label": "Tables" }, Array.from({ length: 3 }, () => h("div", { class: "card waiting", "aria-hidden": "true" })));
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Tables"), this.filter, h("span", { class: "grow" }), this.create), this.dropped, this.summary, this.list);
    catalogue.addEventListener("change", () => this.draw());
    catalogue.addEventListener("dropped", ({ detail: name }) => {
      const close = () => fill(this.dropped);
      fill(this.dropped, droppedNotice({ name, onDone: () => { close(); catalogue.refresh(); location.hash = toTable(name); }, onClose: close }));
    });
  }

  async show() {
    document.title = "Tables · Blockstore";
    this.create.hidden = !(await mayDefine());
  }

  draw() {
    const { tables, error, loaded } = this.catalogue;
    if (error && !loaded) { fill(this.summary); fill(this.list, failure(error, () => this.catalogue.refresh())); return; }
    if (!loaded) return;
    const found = tables.filter((table) => table.name.toLowerCase().includes(this.filter.value.toLowerCase()));
    const total = (key) => tables.reduce((sum, table) => sum + (table[key] ?? 0), 0);
    fill(this.summary, error ? `This list may be outdated: ${error.message}` : `${many(tables.length, "table")}, ${many(total("rows"), "row")}, ${bytes(total("bytes"))}`);
    refill(this.list, found.map(card), found.length ? null : h("p", { class: "empty", role: "listitem" }, tables.length ? "No table name contains that." : "There are no tables here yet."));
  }
}

function card(table) {
  const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
  return h("div", { class: "card", role: "listitem" },
    h("header", {}, h("h2", {}, h("a", { href: toTable(table.name) }, table.name)),
      h("span", { class: `chip ${table.level}` }, table.status)),
    h("dl", {}, fact("Rows", count(table.rows)), fact("Size", bytes(table.bytes)), fact("Blocks", count(table.blocks)), fact("Version", count(table.version)),
      fact("Last read", table.staleness_s === null || table.staleness_s === undefined ? "–" : `${duration(table.staleness_s)} ago`)),
    table.error ? h("pre", { class: "card-error" }, table.error) : null,
    h("footer", {}, h("a", { href: toConsole(`SELECT *\nFROM ${quoted(table.name)}\nLIMIT 1000`) }, "Query"), h("a", { href: toTable(table.name, "rows") }, "Rows"), h("a", { href: toTable(table.name, "history") }, "History"),
      h("a", { href: toTable(table.name, "blocks") }, "Blocks")));
}
