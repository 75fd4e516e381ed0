// One table: its columns, its blocks on a timeline, its history with the difference of two versions, and its tags.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { failure } from "../failure.js";
import { bytes, count, duration, many, quoted } from "../format.js";
import { Latest } from "../latest.js";
import { toConsole, toTable } from "../route.js";
import { BlocksTab } from "./blocks.js";
import { HistoryTab } from "./history.js";

const TABS = [["overview", "Overview"], ["blocks", "Blocks"], ["history", "History"], ["tags", "Tags"]];

export class TableView {
  #latest = new Latest();
  #name = null;

  constructor(section, { catalogue }) {
    this.catalogue = catalogue;
    this.head = h("div", {});
    this.tabs = h("nav", { class: "tabs inner", "aria-label": "This table" });
    this.body = h("div", { class: "tab-body" });
    fill(section, this.head, this.tabs, this.body);
  }

  async show({ name, tab, options }) {
    document.title = `${name} · Blockstore`;
    const run = this.#latest.begin();
    if (this.#name !== name) {
      this.#name = name;
      fill(this.head, h("div", { class: "view-head" }, h("h1", {}, name)), h("p", { class: "facts-line" }, " "));
    }
    fill(this.tabs, TABS.map(([key, label]) => h("a", { href: toTable(name, key === "overview" ? "" : key), "aria-current": key === tab ? "page" : null }, label)));
    if (this.body.dataset.tab !== tab) fill(this.body, h("div", { class: "waiting tall", "aria-hidden": "true" }));
    this.body.dataset.tab = tab;
    this.body.setAttribute("aria-busy", "true");
    try {
      const detail = await api.table(name, run.signal);
      if (!run.isCurrent()) return;
      this.#title(detail);
      const made = await this.#tab(tab, detail, options, run);
      if (run.isCurrent()) { fill(this.body, made.element ?? made); made.start?.(); }
    } catch (error) {
      if (run.isCurrent()) fill(this.body, failure(error, () => this.show({ name, tab, options })));
    }
    if (run.isCurrent()) this.body.removeAttribute("aria-busy");
  }

  #title(detail) {
    fill(this.head,
      h("div", { class: "view-head" }, h("h1", {}, detail.name), h("span", { class: `chip ${detail.level}` }, detail.status), h("span", { class: "grow" }),
        h("a", { class: "button", href: toConsole(`SELECT *\nFROM ${quoted(detail.name)}\nLIMIT 1000`) }, "Query"),
        h("a", { class: "button", href: `#/upload?${new URLSearchParams({ table: detail.name })}` }, "Upload")),
      h("p", { class: "facts-line" }, `${many(detail.rows, "row")} · ${bytes(detail.bytes)} · ${many(detail.blocks, "block")} · version ${count(detail.version)} · read ${duration(detail.staleness_s)} ago`),
      detail.error ? h("pre", { class: "card-error" }, detail.error) : null);
  }

  async #tab(tab, detail, options, run) {
    if (tab === "blocks") return new BlocksTab(await api.timeline(detail.name, run.signal));
    if (tab === "history") return new HistoryTab(detail, await api.history(detail.name, { signal: run.signal }), options);
    return tab === "tags" ? tags(detail) : overview(detail);
  }
}

function overview(detail) {
  const sort = detail.sort_by;
  return h("div", {},
    h("div", { class: "scroll" }, h("table", { class: "plain" },
      h("caption", { class: "unseen" }, "Columns"),
      h("thead", {}, h("tr", {}, ["Column", "Type", "Notes"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, detail.columns.map((column) => h("tr", {}, h("th", { scope: "row" }, column.name), h("td", {}, h("code", {}, column.type)),
        h("td", {}, notes(column, detail, sort))))))),
    h("p", { class: "hint" }, sort.length ? `Sorted by ${sort.join(", ")}: conditions on these columns and on the time column read the least data.` : ""));
}

function notes(column, detail, sort) {
  const found = [];
  if (column.name === detail.time_column) found.push("time column");
  if (sort.includes(column.name)) found.push(`sort key ${sort.indexOf(column.name) + 1}`);
  if (column.nullable === false) found.push("never null");
  if (column.description) found.push(column.description);
  return found.join(", ");
}

function tags(detail) {
  const found = Object.entries(detail.tags).sort(([, one], [, two]) => two - one);
  if (!found.length) return h("p", { class: "empty" }, "No version of this table has a tag. A tag keeps a version readable as long as the tag exists: blockstore tag URL NAME.");
  return h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["Tag", "Version", ""].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, found.map(([tag, version]) => h("tr", {}, h("th", { scope: "row" }, tag), h("td", { class: "right" }, count(version)),
      h("td", {}, h("a", { href: toConsole(`SELECT *\nFROM ${quoted(detail.name)}\nLIMIT 1000`, { tag }) }, "Query at this tag")))))));
}
