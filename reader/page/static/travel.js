// The time that the console reads: now, a version, a time, or a tag. A <details> whose summary shows it.

import { fill, h, labelled } from "./dom.js";
import { moment } from "./format.js";
import { menu } from "./menu.js";

export class Travel {
  #value = {};
  #tables = [];

  constructor({ onChange }) {
    this.onChange = onChange;
    this.summary = h("summary", { id: "travel" });
    this.kind = h("select", { "data-travel": "kind", on: { change: () => this.#rebuild() } },
      h("option", { value: "now" }, "Now"), h("option", { value: "version" }, "Version"), h("option", { value: "as_of" }, "Time"), h("option", { value: "tag" }, "Tag"));
    this.place = h("div", { class: "travel-place" });
    this.element = menu({ kind: "travel", summary: this.summary, card: [labelled("Read the tables as of", this.kind), this.place,
      h("p", { class: "hint" }, "A version or a tag is for one table. A time applies to all tables of a query.")] });
    this.#say();
  }

  get value() { return this.#value; }

  set value(value) {
    this.#value = value;
    this.kind.value = "versions" in value ? "now" : Object.keys(value)[0] ?? "now";
    this.#rebuild(false);
  }

  /** Offer the tags of these tables: [{name, tags: {name: version}}]. */
  set tables(tables) {
    this.#tables = tables;
    if (this.kind.value === "tag" && !this.element.open) this.#rebuild(false);
  }

  #rebuild(changed = true) {
    const set = (value) => { this.#value = value; this.#say(); this.onChange(value); };
    const kind = this.kind.value;
    if (kind === "now") {
      fill(this.place);
      if (changed) set({});
    } else if (kind === "version") {
      fill(this.place, labelled("Version", h("input", { type: "number", min: 1, step: 1, inputmode: "numeric", "data-travel": "version", value: this.#value.version ?? "",
        on: { input: (event) => { if (event.target.validity.valid) set(event.target.value === "" ? {} : { version: Number(event.target.value) }); } } })));
    } else if (kind === "as_of") {
      const local = this.#value.as_of ? String(this.#value.as_of).replace(/Z$/, "").slice(0, 19) : "";
      fill(this.place, labelled("Time (UTC)", h("input", { type: "datetime-local", step: 1, "data-travel": "as_of", value: local,
        on: { change: (event) => set(event.target.value ? { as_of: `${event.target.value.length === 16 ? `${event.target.value}:00` : event.target.value}Z` } : {}) } })));
    } else {
      const found = this.#tables.flatMap((table) => Object.entries(table.tags ?? {}).map(([tag, version]) => ({ tag, of: `${table.name}, version ${version}` })));
      fill(this.place, labelled("Tag", h("select", { "data-travel": "tag", on: { change: (event) => set(event.target.value ? { tag: event.target.value } : {}) } },
        h("option", { value: "" }, found.length ? "Choose a tag" : "No table has a tag"),
        found.map(({ tag, of }) => h("option", { value: tag, selected: this.#value.tag === tag }, `${tag} (${of})`)))));
      if (this.#value.tag && !found.some(({ tag }) => tag === this.#value.tag)) this.place.querySelector("select").append(h("option", { value: this.#value.tag, selected: true }, this.#value.tag));
    }
    this.#say();
  }

  #say() {
    const text = said(this.#value);
    fill(this.summary, h("span", { class: "clock", "aria-hidden": "true" }, "◷"), h("span", { class: "travel-time" }, text));
    this.summary.title = text; // in the bar it may be cut
    this.element.classList.toggle("past", text !== "Now");
  }
}

export function said(travel) {
  if (travel.versions) return Object.entries(travel.versions).map(([name, version]) => `${name} at ${version}`).join(", ");
  if (travel.version !== undefined) return `Version ${travel.version}`;
  if (travel.as_of) return `${moment(travel.as_of)} UTC`;
  if (travel.tag) return `Tag ${travel.tag}`;
  return "Now";
}
