// A result: its table and its chart, one of them visible. The table can be put in the order of a column; the chart, downloads
// and links are those of the query.

import { Chart } from "../chart.js";
import { announce, fill, h } from "../dom.js";
import { Grid } from "../grid.js";
import { Ordered, next } from "../ordered.js";

export class Answer {
  #part = null;

  /** `name` is that of the files of its chart; `chart` a choice of its columns by their names. */
  constructor(result, { shows = "table", name, chart = null } = {}) {
    this.chart = chart;
    this.result = result;
    this.name = name;
    this.shows = shows;
    this.order = null;
    this.tabs = ["table", "chart"].map((name) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "answer-panel",
      on: { click: () => this.choose(name), keydown: (event) => { if (/^Arrow(Left|Right)$/.test(event.key)) { this.choose(this.shows === "table" ? "chart" : "table"); this.tabs.find((tab) => tab.id === `tab-${this.shows}`).focus(); } } },
    }, name === "table" ? "Table" : "Chart"));
    this.panel = h("div", { class: "answer-panel", id: "answer-panel", role: "tabpanel" });
    this.element = h("div", { class: "answer-card" }, h("div", { class: "segments", role: "tablist", "aria-label": "Show the result as" }, this.tabs), this.panel);
  }

  start() { this.choose(this.shows); }
  stop() { this.#part?.stop(); }
  redraw() { this.#part?.draw?.(); }

  choose(name) {
    this.stop();
    this.shows = name;
    for (const tab of this.tabs) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${name}`);
    this.#part = name === "table" ? this.#grid() : new Chart(this.result, { name: this.name, wanted: this.chart, onChoice: (chosen) => { this.chart = chosen; } });
    fill(this.panel, this.#part.element, name === "table" && this.result.rows === 0 ? h("p", { class: "empty" }, "No rows.") : null);
    this.#part.start();
  }

  #grid() {
    const rows = this.order ? new Ordered(this.result, this.order) : this.result;
    return new Grid(rows, { order: this.order, onHead: (name, place) => this.#sort(name, place) });
  }

  #sort(name, place) {
    this.order = next(this.order, place);
    this.choose("table");
    this.#part.go({ row: 0, column: place });
    this.#part.element.focus({ preventScroll: true });
    announce(this.order ? `In the order of ${name}, ${this.order.descending ? "descending" : "ascending"}` : "In the order of the query");
  }
}
