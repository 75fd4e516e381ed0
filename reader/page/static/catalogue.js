// The tables, kept fresh while the page is visible; every view that shows tables listens to it.

import * as api from "./api.js";

const EVERY_MS = 10_000;

export class Catalogue extends EventTarget {
  tables = [];
  error = null;
  loaded = false;
  #details = new Map();
  #timer = null;
  #asking = false;

  start() {
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.refresh(); });
    return this.refresh();
  }

  async refresh() {
    if (this.#asking) return;
    this.#asking = true;
    clearTimeout(this.#timer);
    try {
      const answer = await api.tables();
      this.tables = answer.tables.toSorted((one, two) => one.name.localeCompare(two.name));
      this.error = null;
      this.loaded = true;
    } catch (error) {
      this.error = error;
    }
    this.#asking = false;
    this.dispatchEvent(new Event("change"));
    if (!document.hidden && this.error?.status !== 401) this.#timer = setTimeout(() => this.refresh(), EVERY_MS);
    if (this.error?.status !== 401) await this.describe();
  }

  /** A table was dropped: it is shown no longer. */
  drop(name) {
    this.tables = this.tables.filter((table) => table.name !== name);
    this.dispatchEvent(new CustomEvent("dropped", { detail: name }));
    this.dispatchEvent(new Event("change"));
    this.refresh();
  }

  /** The columns and tags of the tables that the gateway has read, requested once per version: asking for one reads it. */
  async describe() {
    const wanted = this.tables.slice(0, 200).filter((table) => table.state !== "loading" && this.#details.get(table.name)?.at !== table.version);
    if (wanted.length === 0) return;
    const take = async () => {
      for (let table = wanted.pop(); table; table = wanted.pop()) {
        try {
          this.#details.set(table.name, { at: table.version, detail: await api.table(table.name) });
        } catch { /* its own page says what is wrong with it */ }
      }
    };
    await Promise.all([take(), take(), take(), take()]);
    this.dispatchEvent(new Event("described"));
  }

  /** [{name, columns, tags}] of all tables that could be described. */
  get described() {
    return this.tables.flatMap(({ name }) => {
      const known = this.#details.get(name)?.detail;
      return known ? [{ name, columns: [...known.columns, ...Object.keys(known.labels).map((label) => ({ name: label, type: "string" }))], tags: known.tags }] : [];
    });
  }
}
