// One table: its columns, its rows, its changes as they come, its blocks on a timeline, its history with the difference of two versions, and its tags.
// Rules: controls that write are shown to tokens that may. Rows with changes that are not saved stay until they are.

import * as api from "../api.js";
import { fill, h, refill, unseen } from "../dom.js";
import { openAlter, openDrop } from "../edit/alter_table.js";
import { failure } from "../failure.js";
import { bytes, count, duration, many, quoted } from "../format.js";
import { Latest } from "../latest.js";
import { mayDefine, mayWrite } from "../rights.js";
import { toConsole, toTable } from "../route.js";
import { BlocksTab } from "./blocks.js";
import { ChangesTab } from "./changes.js";
import { HistoryTab } from "./history.js";
import { OverviewTab } from "./overview.js";
import { RowsTab } from "./rows.js";

const TABS = [["overview", "Overview"], ["rows", "Rows"], ["changes", "Changes"], ["blocks", "Blocks"], ["history", "History"], ["tags", "Tags"]];

export class TableView {
  #latest = new Latest();
  #name = null;
  #shown = null;
  #edited = new Map();
  #atLeast = new Map(); // by table: the version that this page has written

  constructor(section, { catalogue }) {
    this.catalogue = catalogue;
    this.head = h("div", {});
    this.tabs = h("nav", { class: "tabs inner", "aria-label": "This table" });
    this.body = h("div", { class: "tab-body" });
    fill(section, this.head, this.tabs, this.body);
    addEventListener("beforeunload", (event) => { if (this.#shown?.hasChanges || this.#edited.size) event.preventDefault(); });
  }

  async show({ name, tab, options }) {
    document.title = `${name} · Blockstore`;
    const run = this.#latest.begin();
    this.#keep();
    this.#shown = null;
    if (this.#name !== name) {
      this.#name = name;
      fill(this.head, h("div", { class: "view-head" }, h("h1", {}, name)), h("p", { class: "facts-line" }, " "));
    }
    refill(this.tabs, TABS.map(([key, label]) => h("a", { href: toTable(name, key === "overview" ? "" : key), "aria-current": key === tab ? "page" : null }, label)));
    if (this.body.dataset.tab !== tab) refill(this.body, h("div", { class: "waiting tall", "aria-hidden": "true" }));
    this.body.dataset.tab = tab;
    this.body.setAttribute("aria-busy", "true");
    try {
      const detail = await api.table(name, { minVersion: this.#atLeast.get(name), signal: run.signal });
      if (!run.isCurrent()) return;
      this.#title(detail);
      const made = await this.#tab(tab, detail, options, run);
      if (run.isCurrent()) { this.#shown = made; refill(this.body, made.element ?? made); made.start?.(); }
    } catch (error) {
      if (run.isCurrent()) fill(this.body, failure(error, () => this.show({ name, tab, options })));
    }
    if (run.isCurrent()) this.body.removeAttribute("aria-busy");
  }

  async #saved(name, version) {
    this.#atLeast.set(name, version);
    try {
      const detail = await api.table(name, { minVersion: version });
      if (this.#name === name) this.#title(detail);
      this.catalogue.refresh();
    } catch { /* the rows are saved: the title follows with the next look */ }
  }

  // Rows with changes that are not saved are kept, by the name of their table.
  #keep() {
    const shown = this.#shown;
    shown?.stop?.();
    if (!(shown instanceof RowsTab)) return;
    if (shown.hasChanges) this.#edited.set(shown.detail.name, shown);
    else this.#edited.delete(shown.detail.name);
  }

  #title(detail) {
    const stored = detail.key?.length || detail.row_ids ? "row version" : "row";
    refill(this.head,
      h("div", { class: "view-head" }, h("h1", {}, detail.name), h("span", { class: `chip ${detail.level}` }, detail.status), h("span", { class: "grow" }),
        h("a", { class: "button", href: toConsole(`SELECT *\nFROM ${quoted(detail.name)}\nLIMIT 1000`) }, "Query"),
        h("a", { class: "button", href: `#/upload?${new URLSearchParams({ table: detail.name })}` }, "Upload")),
      h("p", { class: "facts-line" }, detail.restricted ? "A policy restricts this table: you see some of its rows and columns, and queries alone read it." : `${many(detail.rows, stored)} · ${bytes(detail.bytes)} · ${many(detail.blocks, "block")} · version ${count(detail.version)} · read ${duration(detail.staleness_s)} ago`),
      detail.error ? h("pre", { class: "card-error" }, detail.error) : null);
  }

  async #tab(tab, detail, options, run) {
    if (tab === "blocks") return new BlocksTab(await api.timeline(detail.name, run.signal));
    if (tab === "changes") return new ChangesTab(detail);
    if (tab === "history") return new HistoryTab(detail, await api.history(detail.name, { signal: run.signal }), options);
    if (tab === "rows") return this.#edited.get(detail.name) ?? new RowsTab(detail, { options, mayWrite: await mayWrite(), onSaved: (version) => this.#saved(detail.name, version) });
    return tab === "tags" ? tags(detail) : new OverviewTab(detail, await mayDefine() ? this.#acts(detail, options) : null);
  }

  #acts(detail, options) {
    const again = (version) => {
      this.#atLeast.set(detail.name, version); this.catalogue.refresh(); this.show({ name: detail.name, tab: "overview", options }); };
    const dropped = () => { this.#edited.delete(detail.name); this.#atLeast.delete(detail.name); this.#shown = null; this.catalogue.drop(detail.name); location.hash = "#/tables"; };
    const act = (text, click, kind) => h("button", { type: "button", class: kind, on: { click } }, text);
    return h("div", { class: "row table-acts" }, act("Alter table", () => openAlter({ detail, onDone: again })), act("Drop table", () => openDrop({ detail, onDone: dropped }), "danger"));
  }
}

function tags(detail) {
  const found = Object.entries(detail.tags).sort(([, one], [, two]) => two - one);
  if (!found.length) return h("p", { class: "empty" }, "No version of this table has a tag. A tag keeps a version readable as long as the tag exists: blockstore tag URL NAME.");
  return h("div", { class: "scroll" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, ["Tag", "Version", unseen("Actions")].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, found.map(([tag, version]) => h("tr", {}, h("th", { scope: "row" }, tag), h("td", { class: "right" }, count(version)),
      h("td", {}, h("a", { href: toConsole(`SELECT *\nFROM ${quoted(detail.name)}\nLIMIT 1000`, { tag }) }, "Query at this tag")))))));
}
