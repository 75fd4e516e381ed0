// The queries that the gateway runs now: the caller's own, and all of them for the scope admin. Each can be cancelled.
// Asked every second or two while the view is visible.

import * as api from "../api.js";
import { announce, fill, h } from "../dom.js";
import { failure } from "../failure.js";
import { bytes, duration, many, moment } from "../format.js";
import { seesAll } from "../rights.js";

const EVERY_MS = 1_500;
const DOORS = { http: "HTTP", flight: "Flight SQL", postgres: "PostgreSQL" };
const LEVELS = { starting: "busy", running: "good", cancelled: "warn" };

export class QueriesView {
  #timer = null;
  #shown = false;
  #asking = false;

  constructor(section) {
    this.whose = h("p", { class: "hint" }, "Queries that run now on this gateway.");
    this.trouble = h("div", {});
    this.list = h("div", { class: "jobs", role: "list", "aria-label": "Running queries" }, h("div", { class: "card waiting", "aria-hidden": "true" }));
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Queries")), this.whose, this.trouble, this.list);
  }

  async show() {
    document.title = "Queries · Blockstore";
    this.#shown = true;
    this.refresh();
    const whose = await seesAll() ? "All queries" : "Your queries";
    fill(this.whose, `${whose} that run now on this gateway, at any of its doors. Jobs are under Jobs.`);
  }

  hide() { this.#shown = false; clearTimeout(this.#timer); }

  async refresh() {
    if (this.#asking) return;
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      const { queries } = await api.queries();
      fill(this.trouble);
      this.#draw(queries);
    } catch (error) {
      fill(this.trouble, failure(error, () => this.refresh()));
      fill(this.list);
    }
    this.#asking = false;
    if (this.#shown) this.#timer = setTimeout(() => this.refresh(), EVERY_MS);
  }

  #draw(queries) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(this.list, queries.map((query) => this.#card(query)), queries.length ? null : h("p", { class: "empty", role: "listitem" }, "No query runs now."));
    if (focused) (this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`) ?? document.getElementById("main")).focus({ preventScroll: true });
  }

  #card(query) {
    const facts = [`Since ${moment(query.began)} UTC`, `for ${duration(query.seconds)}`, query.rows ? `${many(query.rows, "row")} sent` : "", query.bytes ? bytes(query.bytes) : ""];
    return h("div", { class: "card job", role: "listitem", "data-query": query.id },
      h("header", {}, h("h2", {}, query.own ? `${query.by} (you)` : query.by), h("span", { class: "dim" }, DOORS[query.door] ?? query.door),
        h("span", { class: `chip ${LEVELS[query.state] ?? "busy"}` }, query.state), h("span", { class: "grow" }),
        query.state === "cancelled" ? null : h("button", { type: "button", "data-key": query.id, "aria-label": `Cancel the query of ${query.by}: ${query.sql.slice(0, 80)}`, on: { click: () => this.#cancel(query) } }, "Cancel")),
      h("pre", { class: "job-sql", tabindex: 0 }, query.sql),
      h("p", { class: "hint" }, facts.filter(Boolean).join(", ")));
  }

  async #cancel(query) {
    try {
      await api.cancelQuery(query.id);
      announce("Query cancelled");
    } catch (error) {
      if (error.status !== 404) { fill(this.trouble, failure(error)); return; } // 404: it has ended meanwhile
    }
    await this.refresh();
  }
}
