// What a query would read, as a picture: the blocks of each table on the timeline, those that are read filled, those that are
// left out hollow, with the counts and the reasons above it.

import { fill, h } from "../dom.js";
import { bytes, count, many, moment } from "../format.js";
import { Timeline } from "../../static/shared/timeline.js";

const READ = "read";
const REASONS = [
  ["time", "by time", "no time of the block can meet the condition"],
  ["labels", "by labels", "its labels do not meet the condition"],
  ["statistics", "by statistics", "the values of its columns cannot meet the condition"],
  ["hidden", "hidden", "no current row is in it"],
];

export class Pictures {
  /** `tables` are those of api.explain. */
  constructor(tables) {
    this.parts = tables.map((table) => ({ table, place: h("div", {}), chosen: h("div", { class: "chosen", "aria-live": "polite" }, hint()) }));
    this.element = h("div", { class: "pictures" }, this.parts.length ? this.parts.map((part) => section(part)) : h("p", { class: "empty" }, "The query names no table: there is nothing to read."));
  }

  start() {
    for (const { table, place, chosen } of this.parts) {
      if (!table.blocks.ulid.length) { fill(place, h("p", { class: "empty" }, "The table has no blocks.")); continue; }
      new Timeline(place, { onselect: (block) => fill(chosen, block ? facts(block, table) : hint()) }).show(timelineOf(table));
    }
  }
}

const hint = () => h("p", { class: "hint" }, "Select a block to see what becomes of it.");

function section({ table, place, chosen }) {
  const of = (verdict) => table.verdicts[verdict] ?? 0;
  const all = Object.values(table.verdicts).reduce((sum, number) => sum + number, 0);
  const listed = table.blocks.ulid.length;
  const row = (swatch, name, number, why) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), name), h("td", { class: "right" }, count(number)), h("td", { class: "dim" }, why));
  return h("section", { class: "card picture", "aria-label": `What is read of ${table.name}` },
    h("header", {}, h("h2", {}, table.name), table.version === null ? null : h("span", { class: "dim" }, `version ${count(table.version)}`)),
    h("p", { class: "picture-sum" }, table.counted ? `The count is known: none of ${many(all, "block")} is read.`
      : `${count(of(READ))} of ${many(all, "block")} ${of(READ) === 1 ? "is" : "are"} read: ${bytes(table.bytes_read)} of ${bytes(table.bytes)}, in ${many(table.chunks_read, "chunk")}.`),
    h("p", { class: "hint" }, conditionOf(table)),
    h("div", { class: "scroll" }, h("table", { class: "plain" }, h("caption", { class: "unseen" }, `The blocks of ${table.name} by what becomes of them`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Blocks"), h("th", { scope: "col", class: "right" }, "Number"), h("th", { scope: "col" }, "Why"))),
      h("tbody", {}, row("read", "Read", of(READ), "they may have rows that meet the condition"),
        REASONS.filter(([verdict]) => of(verdict)).map(([verdict, name, why]) => row("skipped", `Left out ${name}`, of(verdict), table.counted ? "the count needs no rows" : why))))),
    place, listed < all ? h("p", { class: "hint" }, `The picture has ${count(listed)} of these blocks, those that are read first.`) : null, chosen);
}

function conditionOf(table) {
  if (!table.condition.length) return "No condition of the query can leave a block out.";
  return `Conditions on: ${table.condition.map((name) => (table.key.includes(name) ? `${name} (sort key)` : name)).join(", ")}.`;
}

function facts(block, table) {
  const at = table.blocks.ulid.indexOf(block.ulid);
  const fact = (name, value) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
  return [h("h3", {}, h("code", {}, block.ulid)), h("dl", {}, fact("This block is", block.state === READ ? "read" : `left out ${block.reason}`),
    fact("Chunks read", count(table.blocks.chunks_read[at])), fact("Bytes read", bytes(table.blocks.bytes_read[at])), fact("Size", bytes(block.bytes)), fact("Rows", count(block.rows)),
    fact("Level", count(block.level)), fact("From", moment(block.low)), fact("To", moment(block.high)))];
}

// The shape that the shared timeline reads (columns.py of the compactor's page).
function timelineOf({ name, version, blocks }) {
  const origin = Math.min(...blocks.min);
  const reasons = ["", ...REASONS.map(([, words]) => words)];
  const place = (verdict) => REASONS.findIndex(([one]) => one === verdict) + 1;
  return {
    table: name, now: Math.max(...blocks.max), version, boundary: null, tags: {}, time_column: null, count: blocks.ulid.length, origin,
    blocks: {
      ulid: blocks.ulid, level: blocks.level, rows: blocks.rows, bytes: blocks.bytes, stream: blocks.stream,
      min: blocks.min.map((low) => low - origin), length: blocks.min.map((low, at) => blocks.max[at] - low),
      state: blocks.verdict.map((verdict) => (verdict === READ ? 0 : 1)), reason: blocks.verdict.map(place),
      version: blocks.ulid.map(() => 0), no_compact: [],
    },
    streams: blocks.streams.map((labels) => ({ labels, resolution: 0 })), states: ["read", "skipped"], reasons,
  };
}
