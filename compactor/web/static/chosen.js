// The chosen table: its versions, the filters, the timeline, and the clicked block.

import { fill, h } from "../static/shared/elements.js";
import { bytes, count, counted, time } from "../static/shared/format.js";
import { Timeline } from "../static/shared/timeline.js";
import { showBlock, showHint } from "./inspector.js";
import { isTended } from "./overview.js";

const MEANING = {
  live: "visible to readers", fresh: "being uploaded, or too young", superseded: "other blocks hold their rows", marked: "wait to be removed",
  deleting: "being removed", partial: "aborted uploads", quarantined: "damaged: a person decides",
};
const find = (id) => document.getElementById(id);

export class Chosen {
  constructor({ onblock }) {
    this.onblock = onblock;
    this.table = null;
    this.answer = null;
    this.hidden = new Set();
    this.labels = Object.create(null); // a label may have any name
    this.timeline = new Timeline(find("timeline"), { onselect: (block) => this.inspect(block), tools: find("zoom") });
    find("search").addEventListener("input", (event) => this.search(event.target.value));
    showHint();
  }

  /** The chosen table as of its timeline, so that the page shows one version of it, and one count of its blocks, everywhere. */
  asSeen(table) {
    if (this.failed || this.answer?.table !== table.name || !isTended(table)) return table;
    return { ...table, ...this.seen, boundary: this.answer.boundary ?? table.boundary };
  }

  /** Show the status of the table. */
  showTable(table) {
    const before = this.table;
    this.table = table;
    find("table-title").textContent = table ? `Blocks of ${table.name}` : "Blocks";
    find("only-name").textContent = table ? table.name : "this table";
    if (before?.name !== table?.name) {
      this.labels = Object.create(null);
      find("table-note").textContent = "";
      showHint();
    }
    const tended = !table || isTended(table);
    for (const part of document.querySelectorAll("#table > :not(.card-head, #facts)")) part.hidden = !tended;
    if (!tended) find("table-note").textContent = "not tended: the configuration leaves this table alone (tend = false), so its blocks are not shown";
    this.facts();
  }

  /** Versions and boundary; the timeline may have what the process has not seen yet. */
  facts() {
    const { table } = this;
    const answer = this.answer?.table === table?.name ? this.answer : null;
    const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const { version, boundary } = table ?? {};
    const tags = Object.entries(answer?.tags ?? {});
    const versions = table?.indexed === false
      ? [fact("Versions", "none: the table has no index")]
      : [
        fact("Version", count(version ?? 0)),
        fact("Boundary", count(boundary ?? 0)),
        fact("Versions that can be read", version === null || version === undefined ? "…" : `${count(Math.max(boundary ?? 0, 0) + 1)} to ${count(version)}`),
        tags.length ? fact("Tags", tags.map(([name, at]) => `${name} = ${at}`).join(", ")) : null,
      ];
    const where = table ? fact("Where", h("span", { class: "mono small" }, table.url)) : null;
    fill(find("facts"), table && !isTended(table) ? where : table ? [
      ...versions,
      table.horizon ? fact("Horizon", h("span", { class: "mono small" }, table.horizon)) : null,
      table.floor ? fact("Floor", h("span", { class: "mono small" }, table.floor)) : null,
      fact("Kept for old versions, at the last cleaning", table.kept ? `${counted(table.kept, "block")}, ${bytes(table.kept_bytes)}` : "none"),
      fact("Held back from removal then", count(table.waiting)),
      table.read_amplification > 1 ? fact("Rows read for each current row", table.read_amplification.toFixed(2)) : null,
      where,
    ] : fact("Table", "none yet"));
  }

  showBlocks(answer, ulid) {
    const other = this.answer?.table !== answer.table;
    this.answer = answer;
    this.failed = false;
    this.seen = read(answer);
    if (this.table) this.table = this.asSeen(this.table);
    find("timeline").hidden = false;
    find("table-note").textContent = `as of ${time(answer.now)} UTC`;
    this.timeline.show(answer);
    this.states();
    this.labelFilters(other);
    this.filter();
    this.facts();
    if (ulid) this.select(ulid);
  }

  showFailure(message) {
    this.failed = true;
    // The blocks of another table must not be shown under this one's name.
    if (this.answer?.table !== this.table?.name) find("timeline").hidden = true;
    const drawn = this.answer?.table === this.table?.name ? `; the blocks shown are as of ${time(this.answer.now)} UTC` : "";
    find("table-note").textContent = `the blocks could not be read: ${message}${drawn}`;
  }

  zoomTo(range) {
    if (this.answer?.table === this.table?.name) this.timeline.zoomTo(range);
  }

  /** Choose a block, even if a filter hides it. */
  select(ulid) {
    const i = this.timeline.data?.place.get(ulid);
    if (i === undefined) {
      fill(find("inspector"), h("p", {}, "Block "), h("p", { class: "mono" }, ulid), h("p", {}, " is not among the blocks shown: it may have been merged and removed."));
      return;
    }
    this.hidden.delete(this.answer.states[this.timeline.data.state[i]]);
    this.states();
    this.filter();
    this.timeline.current = i;
    this.timeline.choose(i);
  }

  search(text) {
    this.text = text;
    this.filter();
  }

  filter() {
    this.timeline.filter({ hidden: this.hidden, labels: this.labels, text: this.text });
  }

  states() {
    const held = new Map();
    for (const number of this.answer.blocks.state) held.set(number, (held.get(number) ?? 0) + 1);
    const chips = this.answer.states.map((name, number) => {
      const pressed = !this.hidden.has(name);
      return h("button", { type: "button", class: "chip", "aria-pressed": String(pressed), "data-key": `state ${name}`, title: MEANING[name] ?? name, onclick: () => this.toggle(name) },
        h("span", { class: `swatch ${name}` }), h("span", { class: "chip-name" }, name), h("b", {}, count(held.get(number) ?? 0)));
    });
    fill(find("states"), chips);
  }

  toggle(name) {
    if (this.hidden.has(name)) this.hidden.delete(name);
    else this.hidden.add(name);
    this.states();
    this.filter();
  }

  labelFilters(other) {
    const values = new Map();
    for (const { labels } of this.answer.streams) {
      for (const [name, value] of Object.entries(labels)) values.set(name, (values.get(name) ?? new Set()).add(value));
    }
    const shape = JSON.stringify([...values].map(([name, found]) => [name, ...found]));
    if (!other && shape === this.shape) return;
    this.shape = shape;
    const choices = [...values].map(([name, found]) => {
      const options = ["", ...[...found].sort()].map((value) => h("option", { value, selected: this.labels[name] === value }, value === "" ? "any" : value));
      const select = h("select", { class: "field", "data-key": `label ${name}` }, options);
      select.addEventListener("change", () => {
        this.labels[name] = select.value;
        this.filter();
      });
      return h("label", {}, h("span", {}, name), select);
    });
    fill(find("labels"), choices);
  }

  async inspect(block) {
    this.onblock(block?.ulid ?? null);
    if (!block) return showHint();
    return showBlock(this.table, block);
  }
}

/** What readers see of the table, by its timeline: live blocks, and damaged blocks that an entry names. */
function read({ version, states, blocks }) {
  const live = states.indexOf("live");
  const damaged = states.indexOf("quarantined");
  const found = { version, blocks: 0, rows: 0, bytes: 0 };
  blocks.state.forEach((state, place) => {
    if (state !== live && !(state === damaged && blocks.version[place])) return;
    found.blocks += 1;
    found.rows += blocks.rows[place];
    found.bytes += blocks.bytes[place];
  });
  return found;
}
