// The limits of the console: how many rows are shown, and beyond how many changed rows it asks. A menu whose summary shows the first.

import { fill, h, labelled, unseen } from "./dom.js";
import { count } from "./format.js";
import { menu } from "./menu.js";

/** How many rows of a result may be shown. */
export const LIMITS = [1_000, 10_000, 100_000, 500_000];
/** How many rows a statement may change before it is asked for. */
const ASK_ABOVE = [0, 100, 1_000, 100_000];

const choice = (id, offered, chosen, change = () => {}) =>
  h("select", { id, on: { change } }, offered.map((rows) => h("option", { value: rows, selected: rows === chosen }, `${count(rows)} rows`)));

export class Limits {
  #shown = choice("limit", LIMITS, 10_000, () => this.#say());
  #above = choice("ask-above", ASK_ABOVE, 1_000);
  #summary = h("summary", { id: "limits" });

  constructor() {
    this.#above.title = "Ask before a statement changes more rows than this";
    this.asking = labelled("Ask above", this.#above, { hidden: true });
    this.element = menu({ kind: "limits", summary: this.#summary, card: [labelled("Show at most", this.#shown), this.asking, h("p", { class: "hint" }, "Downloads have all rows.")] });
    this.#say();
  }

  get rows() { return Number(this.#shown.value); }
  get askAbove() { return Number(this.#above.value); }

  /** Offer what is only for tokens that may change something. */
  set mayChange(may) { this.asking.hidden = !may; }

  #say() { fill(this.#summary, unseen("Limits: "), `${count(this.rows)} rows`); }
}
