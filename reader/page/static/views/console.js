// The console: SQL in, a result out as a table and a chart; it can be shared, downloaded, and moved in time. A statement that
// changes rows or tables runs here too (edit/statement.js).
// Rules: only the newest query paints. The editor keeps its text whatever happens to a query, and a result stays
// whatever happens to its download: that error is shown next to it, until the next query. An address runs queries only: what it
// would change waits for Run. While a statement runs, nothing else does. Each query that was run is one step of the browser's history.

import * as api from "../api.js";
import { announce, byFinger, disable, fill, h } from "../dom.js";
import { downloads } from "../downloads.js";
import { Once } from "../edit/once.js";
import { Statement, notOfALink, notOfThePast } from "../edit/statement.js";
import { Editor } from "../editor.js";
import { failure } from "../failure.js";
import { baseName } from "../file_names.js";
import { bytes, count, duration, many } from "../format.js";
import { Latest } from "../latest.js";
import { LIMITS, Limits } from "../limits.js";
import { keepQuery, recent } from "../recent.js";
import { savedMenu } from "../saved.js";
import { decode } from "../result.js";
import { mayDefine, mayWrite } from "../rights.js";
import { toConsole, travelOf } from "../route.js";
import { Sidebar } from "../sidebar.js";
import { arrowBytes } from "../stream.js";
import { Travel, said } from "../travel.js";
import { Answer } from "./answer.js";
import { Pictures } from "./picture.js";

export class ConsoleView {
  #latest = new Latest();
  #answer = null;
  #last = null;
  #clock = null;
  #statement = null;
  #wanted = null; // the chart of the saved query in the editor: {sql, chart}
  #wasRun = false; // the query of the address: the next change of the text begins a new step
  #once = new Once();
  #written = {}; // by table: the version that this page has written, until a query has read it

  constructor(section, { catalogue }) {
    this.catalogue = catalogue;
    this.travel = new Travel({ onChange: () => this.#keepLink({ isChange: true }) });
    this.runButton = h("button", { type: "button", class: "primary", id: "run", on: { click: () => this.run() } }, "Run", h("kbd", { "aria-hidden": "true" }, "Ctrl ↵"));
    this.stopButton = h("button", { type: "button", id: "stop", hidden: true, on: { click: () => this.stop() } }, "Cancel");
    this.explainButton = h("button", { type: "button", id: "explain", title: "Show which blocks the query reads, without running it", on: { click: () => this.explain() } }, "Explain");
    this.limits = new Limits();
    this.shareButton = h("button", { type: "button", id: "share", on: { click: () => this.#share() } }, "Copy link");
    this.downloads = downloads({ question: () => this.#question(), onBegin: () => fill(this.aside), onError: (error) => this.#failBeside(error) });
    this.recent = recent({ onChoose: (sql) => this.put(sql) });
    this.saved = savedMenu({ text: () => this.editor.text, chart: () => this.#chart(), onChoose: (sql, chart) => this.put(sql, chart) });
    this.aside = h("div", { class: "aside", id: "aside" });
    this.state = h("div", { class: "state", role: "status", "aria-live": "polite" });
    this.place = h("div", { class: "answer", id: "answer" }, h("p", { class: "empty" }, `${byFinger ? "Press Run" : "Press Ctrl and Enter"} to run the SQL above, or the selected part of it.`));
    const host = h("div", { class: "editor", id: "editor" });
    this.sidebar = new Sidebar({ catalogue, onInsert: (text) => this.editor.insert(text), onQuery: (sql) => { this.editor.text = sql; this.run(); } });
    fill(section, h("div", { class: "console" }, this.sidebar.element, h("div", { class: "console-main" },
      h("h1", { class: "unseen" }, "Console"), h("div", { class: "ask" }, host,
        h("div", { class: "bar" }, this.runButton, this.stopButton, this.explainButton, this.travel.element, this.limits.element, h("div", { class: "bar-end" }, this.recent, this.saved, this.downloads, this.shareButton))),
      this.state, this.aside, this.place)));
    this.editor = new Editor(host, { onRun: () => this.run(), onChange: () => this.#keepLink({ isChange: true }) });
    catalogue.addEventListener("described", () => { this.editor.complete(catalogue.described); this.travel.tables = catalogue.described; });
  }

  /** Apply a link; SQL in a link runs at once. */
  show({ options }) {
    document.title = "Console · Blockstore";
    Promise.all([mayWrite(), mayDefine()]).then((may) => { this.limits.mayChange = may.some(Boolean); });
    if (options.sql === undefined) { this.#keepLink(); return; }
    const travel = travelOf(options);
    if (options.sql === this.editor.text && JSON.stringify(travel) === JSON.stringify(this.travel.value)) return;
    this.#wasRun = false; // the browser has made this step already
    this.travel.value = travel;
    this.editor.text = options.sql;
    this.run({ isOfLink: true });
  }

  async run({ isOfLink = false } = {}) {
    if (this.#statement) return;
    const { sql, from } = this.editor.asked;
    if (!sql.trim()) { this.editor.focus(); return; }
    this.#wasRun = true;
    keepQuery(sql);
    const run = this.#latest.begin();
    const travel = this.travel.value;
    const limit = this.limits.rows;
    const began = performance.now();
    this.#busy(began);
    this.editor.mark(null);
    try {
      const response = await api.query(sql, { travel, limit: limit + 1, minVersions: this.#leastOf(sql), signal: run.signal });
      const received = await arrowBytes(response, (size) => { if (run.isCurrent()) this.received = size; });
      if (!run.isCurrent()) return;
      const result = decode(received, limit);
      const versions = api.versionsOf(response);
      this.#last = { sql, travel, versions };
      for (const [name, version] of Object.entries(versions)) if (version >= this.#written[name]) delete this.#written[name];
      this.#paint(result);
      this.#idle();
      this.#tell(`${many(result.rows, "row")}${result.cut ? ` (the first ${count(limit)}: ${limit < LIMITS.at(-1) ? "raise the limit, or " : ""}download all)` : ""}, ${bytes(received.length)} in ${duration((performance.now() - began) / 1000)}`, said({ versions }));
      this.#latest.end(run);
    } catch (error) {
      if (!run.isCurrent()) return;
      if (error.detail?.error === "not_a_query") { await this.#change(run, { sql, from, isOfLink, isInPast: Object.keys(travel).length > 0 }); return; }
      this.#written = {}; // of a table that was dropped or made again the version may never come
      this.#latest.end(run);
      this.#idle();
      this.#fail(error, { sql, from });
    }
  }

  #leastOf(sql) {
    const text = sql.toLowerCase();
    return Object.fromEntries(Object.entries(this.#written).filter(([name]) => text.includes(name.toLowerCase())));
  }

  async #change(run, { sql, from, isOfLink, isInPast }) {
    const statement = new Statement(sql);
    try {
      if (isOfLink) throw notOfALink();
      if (isInPast) throw notOfThePast();
      const counts = await statement.counted(run.signal);
      if (!run.isCurrent()) return;
      if (await this.#isWanted(statement, counts)) await this.#carryOut(statement);
    } catch (error) {
      if (!run.isCurrent()) return;
      this.#once.ended(error);
      this.#idle();
      this.#fail(error, { sql, from });
    }
    this.#statement = null;
    disable(this.runButton, false);
    this.#latest.end(run);
  }

  async #isWanted(statement, counts) {
    if (counts && counts.rows <= this.limits.askAbove) return true;
    this.#idle();
    this.#tell("", "");
    if (await statement.isConfirmed(counts)) return true;
    this.#tell("Not run: nothing was changed.", "");
    return false;
  }

  async #carryOut(statement) {
    this.#statement = statement;
    disable(this.runButton, true);
    const began = performance.now();
    this.#busy(began);
    const { job, sentence } = await statement.run(this.#once.keyFor(statement.sql));
    this.#once.ended();
    if (job.table && job.version !== null) this.#written[job.table] = job.version;
    this.#idle();
    this.#answer?.stop();
    this.#answer = null;
    fill(this.place, h("div", { class: "success" }, h("p", {}, sentence)));
    this.#tell(`${sentence} ${duration((performance.now() - began) / 1000)}`, "");
    this.catalogue.refresh();
  }

  /** Show what the query would read, in place of its result. */
  async explain() {
    if (this.#statement) return;
    const { sql, from } = this.editor.asked;
    const skipped = /^\s*explain(\s+analyze)?\s/i.exec(sql)?.[0].length ?? 0;
    if (!sql.slice(skipped).trim()) { this.editor.focus(); return; }
    const run = this.#latest.begin();
    this.#busy(performance.now());
    this.editor.mark(null);
    try {
      const pictures = new Pictures(await api.picture(sql.slice(skipped), this.travel.value, run.signal));
      if (!run.isCurrent()) return;
      this.#answer?.stop();
      this.#answer = null;
      this.#idle();
      this.#tell("What the query would read; it was not run.", "");
      fill(this.place, pictures.element);
      pictures.start();
    } catch (error) {
      if (!run.isCurrent()) return;
      this.#idle();
      this.#fail(error, { sql: sql.slice(skipped), from: from + skipped });
    }
    this.#latest.end(run);
  }

  stop() {
    if (this.#statement) { this.#statement.cancel(); return; }
    if (!this.#latest.cancel()) return;
    this.#idle();
    this.#tell("Cancelled.", "");
    this.editor.focus();
  }

  redraw() { this.#answer?.redraw(); }

  /** Put a query into the editor; it waits for Run, and then shows its chart, if it has one. */
  put(sql, chart = null) {
    this.editor.text = sql;
    this.#wanted = chart && { sql, chart };
    this.edit();
  }

  edit() { this.editor.focus(); }

  beginToSave() { this.saved.begin(); }

  // The chart that is shown of the query in the editor, by the names of its columns; null if none is.
  #chart() { return this.#answer?.shows === "chart" && this.#answer.sql === this.editor.text ? this.#answer.chart : null; }

  #paint(result) {
    const { sql, versions } = this.#last;
    const wanted = this.#wanted?.sql === sql ? this.#wanted.chart : null;
    this.#wanted = null;
    const before = this.#answer;
    before?.stop();
    this.#answer = new Answer(result, { shows: wanted ? "chart" : before?.shows, name: baseName(sql, Object.keys(versions)), chart: wanted ?? (before?.sql === sql ? before.chart : null) });
    this.#answer.sql = sql;
    fill(this.place, this.#answer.element);
    this.#answer.start();
  }

  #busy(began) {
    this.received = 0;
    fill(this.aside);
    clearInterval(this.#clock);
    this.place.setAttribute("aria-busy", "true");
    this.stopButton.hidden = false;
    this.explainButton.hidden = true; // its place is taken: what runs does not move the page
    const say = () => fill(this.state, h("span", { class: "spinner", "aria-hidden": "true" }), `Running ${duration((performance.now() - began) / 1000)}${this.received ? `, ${bytes(this.received)} received` : ""}`);
    this.state.setAttribute("aria-live", "off");
    say();
    this.#clock = setInterval(say, 200);
  }

  #idle() {
    clearInterval(this.#clock);
    this.place.removeAttribute("aria-busy");
    if (this.stopButton === document.activeElement) this.runButton.focus();
    this.stopButton.hidden = true;
    this.explainButton.hidden = false;
  }

  #tell(text, versions) {
    this.state.setAttribute("aria-live", "polite");
    fill(this.state, h("span", {}, text), versions && versions !== "Now" ? h("span", { class: "dim", id: "versions" }, versions) : null);
  }

  #fail(error, asked = null) {
    if (error.name === "AbortError") return;
    this.#answer?.stop();
    this.#answer = null;
    this.#tell("", "");
    fill(this.place, failure(error));
    const place = asked && error.placeIn?.(asked.sql);
    if (Number.isInteger(place)) this.editor.mark(asked.from + place);
  }

  #failBeside(error) {
    if (error.name !== "AbortError") fill(this.aside, failure(error));
  }

  // The query of a download or a job: the last one, at the versions that its result was made from.
  #question() {
    const { sql } = this.editor.asked;
    const last = this.#last;
    const same = last && last.sql === sql && JSON.stringify(last.travel) === JSON.stringify(this.travel.value);
    return { sql, travel: same ? pinned(last) : this.travel.value };
  }

  #keepLink({ isChange = false } = {}) {
    if (!this.editor || !/^#?$|^#\/console/.test(location.hash)) return;
    const link = this.editor.text ? toConsole(this.editor.text, this.travel.value) : "#/console";
    if (isChange && this.#wasRun) {
      this.#wasRun = false;
      history.pushState(null, "", link);
    } else history.replaceState(null, "", link);
  }

  async #share() {
    const { travel } = this.#question();
    const link = `${location.origin}${location.pathname}${toConsole(this.editor.text, travel)}`;
    try {
      await navigator.clipboard.writeText(link);
      fill(this.shareButton, "Copied");
      announce("Link copied");
      setTimeout(() => fill(this.shareButton, "Copy link"), 1500);
    } catch {
      const field = h("input", { type: "text", readonly: true, value: link, "aria-label": "Link" });
      fill(this.state, field);
      field.select();
    }
  }
}

// Time travel to the versions that a result was made from, so that it can be repeated later.
function pinned({ travel, versions }) {
  const names = Object.keys(versions);
  if (Object.keys(travel).length || names.length === 0) return travel;
  return { versions };
}
