// The blocks of a table on the timeline that the compactor's page also has, and the selected block.

import { fill, h } from "../dom.js";
import { bytes, count, moment } from "../format.js";
import { Timeline } from "../../static/shared/timeline.js";

export class BlocksTab {
  constructor(columns) {
    this.columns = columns;
    this.place = h("div", {});
    this.chosen = h("div", { class: "chosen", "aria-live": "polite" }, h("p", { class: "hint" }, "Select a block to see its details."));
    this.element = h("div", {}, h("div", { class: "card" }, this.place), this.chosen);
  }

  start() {
    this.timeline = new Timeline(this.place, { onselect: (block) => this.#show(block) });
    this.timeline.show(this.columns);
  }

  #show(block) {
    if (!block) { fill(this.chosen, h("p", { class: "hint" }, "Select a block to see its details.")); return; }
    const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
    fill(this.chosen, h("h3", {}, h("code", {}, block.ulid)), h("dl", {}, fact("Rows", count(block.rows)), fact("Size", bytes(block.bytes)), fact("Level", count(block.level)),
      fact("Writes in it", count(block.sources)), fact("From", moment(block.low)), fact("To", moment(block.high)), fact("Since version", count(block.version))));
  }
}
