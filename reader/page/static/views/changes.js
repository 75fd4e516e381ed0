// The changes of a table as they come, the newest on top.
// Rules: each version is shown once. What is not shown is said: rows beyond the newest thousand, versions that changed more than
// the page holds, versions whose changes are no longer known. While it is paused or hidden it asks for nothing.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { button } from "../edit/dialogs.js";
import { failure } from "../failure.js";
import { bytes, count, many } from "../format.js";
import { Grid } from "../grid.js";
import { Latest } from "../latest.js";
import { decode } from "../result.js";
import { TooLarge, arrowBytes } from "../stream.js";

const BACK = 20; // versions that are shown at first
const MOST_ROWS = 1_000;
const MOST_BYTES = 16 * 1024 * 1024;
const AGAIN_MS = 2_000;

export class ChangesTab {
  #latest = new Latest();
  #feed = new Feed();
  #grid = null;
  #isPaused = false;
  #onVisible = () => { if (document.hidden) this.#latest.cancel(); else this.#follow(); };

  constructor(detail) {
    this.name = detail.name;
    this.after = Math.max(detail.version - BACK, 0);
    this.pauseButton = button("Pause", () => this.#pause());
    this.state = h("p", { class: "hint", id: "changes-state", role: "status" });
    this.said = h("div", { class: "edit-said" });
    this.place = h("div", { class: "rows-place" }, h("p", { class: "empty" }, "No row was changed lately. Changes appear here as they are made."));
    this.element = h("div", { class: "rows-tab" }, h("div", { class: "row rows-bar" }, this.state, h("span", { class: "grow" }), this.pauseButton), this.said, this.place);
  }

  start() {
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#grid?.start();
    this.#follow();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisible);
    this.#latest.cancel();
    this.#grid?.stop();
  }

  #pause() {
    this.#isPaused = !this.#isPaused;
    this.pauseButton.setAttribute("aria-pressed", String(this.#isPaused));
    if (this.#isPaused) this.#latest.cancel(); else this.#follow();
    this.#say();
  }

  async #follow() {
    if (this.#isPaused || document.hidden) return;
    const run = this.#latest.begin();
    this.#say();
    while (run.isCurrent()) {
      try {
        await this.#next(run);
        if (run.isCurrent()) fill(this.said);
      } catch (error) {
        if (!run.isCurrent()) return;
        fill(this.said, failure(error, () => this.#follow()));
        if (!isPassing(error)) { this.#latest.end(run); this.#say(); return; }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  async #next(run) {
    let response;
    try {
      response = await api.changes(this.name, { after: this.after, signal: run.signal });
    } catch (error) {
      if (error.status !== 410) throw error;
      const { version } = await api.table(this.name, { signal: run.signal });
      if (run.isCurrent()) this.#skip(version, "are no longer known");
      return;
    }
    const { until } = response;
    try {
      const received = await arrowBytes(response.body, () => {}, MOST_BYTES);
      if (run.isCurrent()) this.#take(decode(received), until);
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      if (run.isCurrent()) this.#skip(until, `are more than this page shows (${bytes(MOST_BYTES)})`);
    }
  }

  #take(result, until) {
    this.after = until;
    this.#say();
    if (!result.rows) return;
    if (this.#feed.add(result)) {
      this.#grid?.stop();
      this.#grid = new Grid(this.#feed, { label: "Changes" });
      fill(this.place, this.#grid.element);
      this.#grid.start();
    } else {
      this.#grid.refresh();
    }
    this.#say();
  }

  #skip(version, why) {
    const first = this.after + 1;
    const which = version > first ? `versions ${count(first)} to ${count(version)}` : `version ${count(version)}`;
    fill(this.place, h("p", { class: "notice-line" }, `The changes of ${which} ${why}. Later ones appear here.`));
    this.#grid?.stop();
    this.#grid = null;
    this.#feed = new Feed();
    this.after = version;
    this.#say();
  }

  #say() {
    const word = this.#isPaused ? "Paused" : this.#latest.current ? "Following" : "Stopped";
    const { rows, left } = this.#feed;
    fill(this.state, `${word} at version ${count(this.after)}: ${rows ? `${many(rows, "change")}, the newest on top` : "no changes"}${left ? `; ${count(left)} older ones are not shown` : ""}.`);
  }
}

const isPassing = (error) => error.lost || [429, 503].includes(error.status);

// The rows of many results as one result, the last on top.
class Feed {
  #rows = [];
  #kinds = "";
  columns = [];
  left = 0;

  get rows() { return this.#rows.length; }

  /** The result and the place in it of a row. */
  at(row) { return this.#rows[row]; }

  /** Add the rows of a result; returns whether the columns are others, and so all rows before are gone. */
  add(result) {
    const kinds = result.columns.map(({ name, typeName }) => `${name}\n${typeName}`).join("\n");
    const areOthers = kinds !== this.#kinds;
    if (areOthers) {
      this.#kinds = kinds;
      this.left += this.rows;
      this.#rows = [];
      this.columns = result.columns.map((column, place) => new FeedColumn(this, column, place));
    }
    const added = Array.from({ length: Math.min(result.rows, MOST_ROWS) }, (_, back) => [result, result.rows - 1 - back]);
    const all = [...added, ...this.#rows];
    this.left += result.rows - added.length + Math.max(all.length - MOST_ROWS, 0);
    this.#rows = all.slice(0, MOST_ROWS);
    return areOthers;
  }
}

class FeedColumn {
  #feed;
  #place;

  constructor(feed, { name, typeName, kind, isRight }, place) {
    Object.assign(this, { name, typeName, kind, isRight });
    this.#feed = feed;
    this.#place = place;
  }

  get length() { return this.#feed.rows; }

  text(row) {
    const [result, at] = this.#feed.at(row);
    return result.columns[this.#place].text(at);
  }
}
