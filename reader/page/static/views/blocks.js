// The blocks of a table, on the timeline that the compactor's page shows too, and the block that was chosen there.

import { fill, h } from "../dom.js";
import { bytes, count, moment } from "../format.js";
import { Timeline } from "/static/shared/timeline.js";

export class BlocksTab {
  constructor(detail, answer) {
    this.columns = columnsOf(detail, answer);
    this.place = h("div", {});
    this.chosen = h("div", { class: "chosen", "aria-live": "polite" }, h("p", { class: "hint" }, "Choose a block to see what it holds."));
    this.element = h("div", {}, h("div", { class: "card" }, this.place), this.chosen);
  }

  start() {
    this.timeline = new Timeline(this.place, { onselect: (block) => this.#show(block) });
    this.timeline.show(this.columns);
  }

  #show(block) {
    if (!block) { fill(this.chosen, h("p", { class: "hint" }, "Choose a block to see what it holds.")); return; }
    const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
    fill(this.chosen, h("h3", {}, h("code", {}, block.ulid)), h("dl", {}, fact("Rows", count(block.rows)), fact("Size", bytes(block.bytes)), fact("Level", count(block.level)),
      fact("Writes in it", count(block.sources)), fact("From", moment(block.low)), fact("To", moment(block.high)), fact("Since version", count(block.version))));
  }
}

/** The gateway's blocks in the columns that the timeline reads. All of them are live: a reader sees no others. */
export function columnsOf(detail, { table, version, blocks }) {
  const streams = new Map();
  const stream = (block) => {
    const found = { labels: block.labels ?? {}, resolution: block.resolution ?? 0 };
    const key = JSON.stringify([Object.entries(found.labels).sort(), found.resolution]);
    if (!streams.has(key)) streams.set(key, { place: streams.size, found });
    return streams.get(key).place;
  };
  const origin = blocks.reduce((least, block) => Math.min(least, block.min_time), blocks.length ? Infinity : 0);
  const column = (value) => blocks.map(value);
  return {
    table, version, now: Date.now(), boundary: null, tags: detail.tags, time_column: detail.time_column, count: blocks.length, origin,
    blocks: {
      ulid: column((block) => block.ulid), stream: column(stream), level: column((block) => block.level), min: column((block) => block.min_time - origin),
      length: column((block) => block.max_time - block.min_time), rows: column((block) => block.rows), bytes: column((block) => block.bytes),
      sources: column((block) => (Array.isArray(block.sources) ? block.sources.length : block.sources ?? 1)), state: column(() => 0), reason: column(() => 0),
      version: column((block) => block.version ?? 0), no_compact: [],
    },
    streams: [...streams.values()].map(({ found }) => found), states: ["live"], reasons: [""],
  };
}
