// The palette: everything that has a name on this page, found by typing. Keys only: arrows choose, Enter does it, Escape leaves.
// A screen reader meets a combobox with its list of options; a click on an option does the same as Enter.

import { byFinger, fill, h } from "./dom.js";

const MOST = 50;
const isMac = navigator.platform.startsWith("Mac");

export class Palette {
  #found = [];
  #at = 0;

  /** `commands()` is what can be done now: [{kind, name, act}]. */
  constructor({ commands, button }) {
    this.commands = commands;
    this.input = h("input", {
      type: "text", role: "combobox", id: "palette-input", "aria-label": "Go to a table, a view, a saved query or an action", placeholder: "Go to a table, a view, a saved query or an action", "aria-expanded": "true", "aria-controls": "palette-list",
      "aria-autocomplete": "list", autocomplete: "off", autocapitalize: "off", spellcheck: "false", on: { input: () => this.#find(), keydown: (event) => this.#key(event) },
    });
    this.list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
    this.said = h("p", { class: "hint", role: "status" });
    this.dialog = h("dialog", { class: "palette", "aria-label": "Find", on: { click: (event) => { if (event.target === this.dialog) this.dialog.close(); } } }, this.input, this.list, this.said);
    document.body.append(this.dialog);
    button.addEventListener("click", () => this.open());
    addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "k" || !event[isMac ? "metaKey" : "ctrlKey"] || event.altKey || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      if (this.dialog.open) this.dialog.close();
      else this.open();
    }, { capture: true });
  }

  open() {
    if (document.querySelector("dialog[open]")) return; // another one is being answered
    this.every = this.commands();
    this.input.value = "";
    this.dialog.showModal();
    this.#find();
    this.input.focus();
  }

  #find() {
    const all = found(this.every, this.input.value);
    this.#found = all.slice(0, MOST);
    fill(this.list, this.#found.map(({ kind, name }, place) => h("li", { role: "option", id: `palette-${place}`, on: { click: () => this.#do(place) } }, h("span", { class: "side-name" }, name), " ", h("span", { class: "dim" }, kind))));
    this.list.hidden = all.length === 0;
    this.input.setAttribute("aria-expanded", String(all.length > 0));
    fill(this.said, all.length === 0 ? "Nothing has this name." : all.length > MOST ? `The first ${MOST} of ${all.length}: type more.` : `${all.length} found.${byFinger ? "" : " Arrows choose, Enter opens."}`);
    this.#go(0);
  }

  #go(place) {
    const size = this.#found.length;
    this.list.children[this.#at]?.setAttribute("aria-selected", "false");
    this.#at = size ? (place + size) % size : 0;
    const option = this.list.children[this.#at];
    if (!option) { this.input.removeAttribute("aria-activedescendant"); return; }
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const far = { PageDown: Math.min(this.#at + 10, this.#found.length - 1), PageUp: Math.max(this.#at - 10, 0) }[event.key];
    if (step !== undefined || far !== undefined) { event.preventDefault(); this.#go(far ?? this.#at + step); }
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); this.#do(this.#at); }
    if (event.key === "Tab") event.preventDefault(); // the options are chosen from here
  }

  #do(place) {
    const chosen = this.#found[place];
    if (!chosen) return;
    this.dialog.close();
    chosen.act();
  }
}

/** The commands whose kind and name contain all words: those whose name begins with the text first. */
export function found(commands, text) {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter(Boolean);
  const rank = (name) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3);
  return commands.filter(({ kind, name }) => { const own = `${kind} ${name}`.toLowerCase(); return words.every((word) => own.includes(word)); })
    .map((command, place) => ({ command, place, rank: wanted ? rank(command.name.toLowerCase()) : 0 }))
    .sort((one, two) => one.rank - two.rank || one.place - two.place).map(({ command }) => command);
}
