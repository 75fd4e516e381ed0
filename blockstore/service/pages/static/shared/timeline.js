// Blocks on a timeline: x = time range, rows = stream and level, colour = state. uPlot draws the axes and zooms by
// dragging; this module draws the blocks on its canvas, finds them under the pointer, and moves between them by keys.
//
// new Timeline(host, { onselect: (block | null) => …, tools: the place of the zoom buttons }); then show(answer), filter({hidden, labels, text}), select(ulid).

import { uPlot } from "../vendor/chart.js";
import { UNKNOWN_LEVEL, blockAt, decode, matching, rangeOf, rowsOf } from "./blocks.js";
import { h } from "./elements.js";
import { bytes, count, counted, span, streamName } from "./format.js";
import { Gestures } from "./gestures.js";
import { paint } from "./painting.js";

const AXIS = 42;
const GUTTER = 34;
const HEADING = 20;
const GAP = 6;
const LEAST_SPAN_MS = 1;
const TALL = 420; // from this height the times are also above the blocks
const MOST_HEIGHT = 6_000; // browsers refuse much taller canvases: blocks below are counted, and a filter finds them

// The text of a tick, by the distance of two: the time, and the day under it where it changes.
const [S, D, YEAR] = [1_000, 86_400_000, 365 * 86_400_000];
const below = (text) => `\n${text}`;
const TICKS = [
  [YEAR, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * D, "{MMM}", below("{YYYY}"), null, null, null, null, null, 1],
  [D, "{D} {MMM}", below("{YYYY}"), null, null, null, null, null, 1],
  [60 * S, "{HH}:{mm}", below("{D} {MMM} {YYYY}"), null, below("{D} {MMM}"), null, null, null, 1],
  [S, "{HH}:{mm}:{ss}", below("{D} {MMM} {YYYY}"), null, below("{D} {MMM}"), null, null, null, 1],
  [1, "{HH}:{mm}:{ss}.{fff}", below("{D} {MMM} {YYYY}"), null, below("{D} {MMM}"), null, null, null, 1],
];

const KEYS = "Left and right go to the previous and next block, up and down to another row, Enter shows the block, plus and minus zoom, zero shows all.";

export class Timeline {
  constructor(host, { onselect = () => {}, tools = null } = {}) {
    this.host = host;
    this.toolsHost = tools;
    this.onselect = onselect;
    this.data = null;
    this.wanted = {};
    this.places = [];
    this.rows = [];
    this.range = null; // the visible times, or null for all
    this.current = -1; // the block that the keys are on
    this.selected = -1;
    this.drawn = 0;
    host.timeline = this; // for debuggers and tests
    this.build();
  }

  build() {
    this.canvasHost = h("div", { class: "timeline-chart", tabindex: "0", role: "application", "aria-roledescription": "timeline", "aria-label": "Blocks" });
    this.tip = h("div", { class: "timeline-tip", hidden: true });
    this.said = h("p", { class: "unseen", "aria-live": "polite" });
    this.note = h("p", { class: "timeline-note small muted" });
    const act = (label, name, action) => h("button", { type: "button", class: "button", "aria-label": name, title: name, onclick: action }, label);
    this.tools = h("div", { class: "timeline-tools", role: "group", "aria-label": "Zoom" },
      act("−", "Zoom out", () => this.zoomBy(2)), act("+", "Zoom in", () => this.zoomBy(0.5)),
      act("◂", "Earlier", () => this.pan(-0.5)), act("▸", "Later", () => this.pan(0.5)), act("All", "Show all times", () => this.zoomTo(null)));
    this.host.classList.add("timeline");
    this.host.replaceChildren(...(this.toolsHost ? [] : [this.tools]), this.canvasHost, this.note, this.said, this.tip);
    this.toolsHost?.replaceChildren(this.tools);
    this.canvasHost.addEventListener("keydown", (event) => this.onkey(event));
    this.canvasHost.addEventListener("blur", () => this.mark(this.focusMark, -1));
    this.canvasHost.addEventListener("focus", () => this.canvasHost.matches(":focus-visible") && this.goTo(this.current < 0 ? this.first() : this.current));
    new ResizeObserver(() => this.resize()).observe(this.canvasHost);
    document.addEventListener("themechange", () => this.redraw());
    this.gestures = new Gestures(this);
  }

  /** Show the timeline's JSON; selection, zoom and filter stay. */
  show(answer) {
    const before = this.data;
    const [chosen, stood] = [before?.ulid[this.selected], before?.ulid[this.current]];
    this.data = decode(answer);
    if (before?.table !== answer.table) this.range = null;
    this.selected = before?.table === answer.table ? (this.data.place.get(chosen) ?? -1) : -1;
    this.current = before?.table === answer.table ? (this.data.place.get(stood) ?? -1) : -1;
    this.layout();
  }

  filter(wanted) {
    this.wanted = wanted;
    if (this.data) this.layout();
  }

  layout() {
    this.places = matching(this.data, this.wanted);
    this.rows = rowsOf(this.data, this.places, streamName);
    const timed = this.places.filter((i) => this.data.level[i] !== UNKNOWN_LEVEL);
    this.whole = rangeOf(this.data, timed.length ? timed : this.places);
    this.stack();
    this.draw();
    this.describe();
  }

  /** Set the height of each row: a heading where a stream begins, and a band per lane. */
  stack() {
    let top = 2;
    let stream = -1;
    this.headings = [];
    const beyond = this.rows.findIndex((row) => {
      if (top > MOST_HEIGHT) return true;
      if (row.stream !== stream) {
        top += stream < 0 ? 0 : GAP;
        this.headings.push({ top, text: streamName(this.data.streams[row.stream]) });
        top += HEADING;
        stream = row.stream;
      }
      row.band = row.lanes === 1 ? 20 : row.lanes <= 3 ? 12 : 8;
      row.top = top;
      row.height = row.band * row.lanes;
      top += row.height + GAP;
      return false;
    });
    this.undrawn = beyond < 0 ? [] : this.rows.splice(beyond);
    this.total = Math.max(top, 60);
    this.spots = new Map(); // place -> row and lane
    for (const row of this.rows) row.places.forEach((i, at) => this.spots.set(i, { row, lane: row.lane[at], at }));
  }

  draw() {
    const width = Math.max(this.canvasHost.clientWidth, 200);
    const tall = this.total > TALL;
    const height = this.total + AXIS + (tall ? AXIS + 6 : 0);
    if (this.plot && this.tall !== tall) {
      this.plot.destroy();
      this.plot = null;
    }
    this.tall = tall;
    if (!this.plot) this.plot = new uPlot(this.options(width, height), [[0, 1], [null, null]], this.canvasHost);
    else if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
    this.canvasHost.style.setProperty("--plot-height", `${height}px`);
    this.overlay();
    this.zoomTo(this.range, { quiet: true });
  }

  options(width, height) {
    const colour = (name) => () => this.colours().get(name);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), size: 5 } };
    const times = { ...axis, scale: "x", side: 2, size: AXIS, space: 84, font: "12px system-ui, sans-serif", values: TICKS };
    return {
      width, height, ms: 1, padding: [0, 40, 0, 0],
      tzDate: (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC"),
      legend: { show: false },
      cursor: { points: { show: false }, y: false, drag: { x: true, y: false, setScale: false, dist: 6 } },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      scales: { x: { time: true, auto: false, range: () => this.shown() }, y: { auto: false, range: () => [0, this.total], dir: -1 } },
      axes: [
        times,
        ...(this.tall ? [{ ...times, side: 0, gap: 18, size: AXIS + 6, grid: { show: false } }] : []),
        {
          ...axis, scale: "y", side: 3, size: GUTTER, grid: { show: false }, ticks: { show: false }, font: "11px system-ui, sans-serif", gap: 4,
          splits: () => this.rows.map((row) => row.top + row.height / 2),
          values: () => this.rows.map((row) => (row.level === UNKNOWN_LEVEL ? "?" : `L${row.level}`)),
        },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [() => this.paint()], setSelect: [(plot) => this.onzoomed(plot)] },
    };
  }

  paint() {
    this.drawn = paint(this);
    this.canvasHost.dataset.drawn = this.drawn;
  }

  /** The elements over the canvas: headings of streams, and outlines of the hovered, current and selected blocks. */
  overlay() {
    this.hoverMark ??= h("div", { class: "timeline-mark hover", hidden: true });
    this.focusMark ??= h("div", { class: "timeline-mark stand", hidden: true });
    this.chosenMark ??= h("div", { class: "timeline-mark chosen", hidden: true });
    const headings = this.headings.map(({ top, text }) => {
      const element = h("div", { class: "timeline-heading", title: text }, text);
      element.style.top = `${top}px`;
      return element;
    });
    for (const old of this.plot.over.querySelectorAll(".timeline-heading, .timeline-mark")) old.remove();
    this.plot.over.append(...headings, this.chosenMark, this.hoverMark, this.focusMark);
    this.gestures.watch(this.plot.over);
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    return { get: (name) => style.getPropertyValue(name).trim() };
  }

  shown() {
    return this.range ?? this.whole ?? [0, 1];
  }

  zoomTo(range, { quiet = false } = {}) {
    this.range = range && clamp(range, this.whole);
    const [min, max] = this.shown();
    this.plot?.setScale("x", { min, max });
    this.place();
    this.notice();
    if (!quiet) this.say(`Shown: ${span(Math.ceil(min), Math.floor(max))}`);
  }

  zoomBy(factor, at = 0.5) {
    const [min, max] = this.shown();
    const centre = min + (max - min) * at;
    const width = (max - min) * factor;
    this.zoomTo([centre - width * at, centre + width * (1 - at)]);
  }

  pan(share) {
    if (!this.range) return;
    const [min, max] = this.range;
    const step = (max - min) * share;
    const low = Math.min(Math.max(min + step, this.whole[0]), this.whole[1] - (max - min));
    this.zoomTo([low, low + max - min]);
  }

  onzoomed(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    const range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomTo(range);
  }

  resize() {
    if (!this.plot || !this.data) return;
    const width = this.canvasHost.clientWidth;
    if (width > 0 && width !== this.plot.width) {
      this.plot.setSize({ width, height: this.plot.height });
      this.place();
    }
  }

  redraw() {
    this.plot?.redraw(false, true);
  }

  /** The box of a block, in CSS pixels of the plot; null if it is outside the visible times. */
  boxOf(i) {
    const spot = this.spots?.get(i);
    const [min, max] = this.shown();
    if (!spot || this.data.high[i] < min || this.data.low[i] > max) return null;
    const left = Math.max(this.plot.valToPos(this.data.low[i], "x"), 0);
    const right = Math.min(this.plot.valToPos(this.data.high[i], "x"), this.plot.over.clientWidth);
    const { row, lane } = spot;
    return { left, top: row.top + lane * row.band, width: Math.max(right - left, 3), height: row.band - 2 };
  }

  /** The block under a point of the plot: the nearest within three pixels, or -1. */
  at(x, y) {
    const row = this.rows.find((one) => y >= one.top && y < one.top + one.height);
    if (!row) return -1;
    const lane = Math.floor((y - row.top) / row.band);
    const slack = this.plot.posToVal(x + 3, "x") - this.plot.posToVal(x, "x");
    const moment = this.plot.posToVal(x, "x");
    let [best, distance] = [-1, slack];
    for (let at = 0; at < row.places.length; at += 1) {
      const i = row.places[at];
      if (this.data.low[i] > moment + slack) break;
      if (row.lane[at] !== lane) continue;
      const away = Math.max(this.data.low[i] - moment, moment - this.data.high[i], 0);
      if (away < distance || (away === 0 && distance === 0)) [best, distance] = [i, away];
    }
    return best;
  }

  mark(element, i) {
    const box = i < 0 || !this.plot ? null : this.boxOf(i);
    element.hidden = !box;
    if (!box) return;
    element.style.transform = `translate(${box.left - 2}px, ${box.top - 2}px)`;
    element.style.width = `${box.width + 4}px`;
    element.style.height = `${box.height + 4}px`;
  }

  place() {
    if (!this.plot) return;
    this.mark(this.chosenMark, this.selected);
    this.mark(this.focusMark, document.activeElement === this.canvasHost && this.canvasHost.matches(":focus-visible") ? this.current : -1);
    this.mark(this.hoverMark, -1);
    this.tip.hidden = true;
  }

  hover(i, x, y) {
    if (i === this.hovered && i < 0) return;
    this.hovered = i;
    this.mark(this.hoverMark, i);
    this.plot.over.style.cursor = i < 0 ? "" : "pointer";
    this.showTip(i, x, y);
  }

  showTip(i, x, y) {
    this.tip.hidden = i < 0;
    if (i < 0) return;
    const block = blockAt(this.data, i);
    const line = (name, value) => [h("dt", {}, name), h("dd", {}, value)];
    this.tip.replaceChildren(
      h("p", { class: "mono" }, block.ulid),
      h("p", {}, h("span", { class: `swatch ${block.state}` }), block.state, block.reason ? `: ${block.reason}` : ""),
      h("dl", {}, line("time", span(block.low, block.high)), line("stream", streamName(block.stream)), line("level", block.level || "unknown"),
        line("rows", count(block.rows)), line("size", bytes(block.bytes)), block.sources === undefined ? null : line("sources", count(block.sources)), block.noCompact ? line("merges", "excluded by a mark") : null),
    );
    const room = this.host.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const left = Math.min(Math.max(x - room.left + 14, 4), room.width - width - 4);
    const below = y - room.top + 16;
    const top = y + height + 24 > innerHeight ? y - room.top - height - 12 : below;
    this.tip.style.transform = `translate(${Math.max(left, 4)}px, ${top}px)`;
  }

  /** Select a block by its ULID, or none. */
  select(ulid) {
    this.choose(ulid === null ? -1 : (this.data?.place.get(ulid) ?? -1), { quiet: true });
    if (this.selected >= 0) this.current = this.selected;
  }

  choose(i, { quiet = false } = {}) {
    this.selected = i;
    if (i >= 0) this.reveal(i);
    this.place();
    if (!quiet) this.onselect(i < 0 ? null : blockAt(this.data, i));
  }

  first() {
    return this.rows[0]?.places[0] ?? -1;
  }

  /** Move the visible times to a block. */
  reveal(i) {
    const [min, max] = this.shown();
    if (!this.spots.has(i) || (this.data.low[i] < max && this.data.high[i] > min)) return;
    const width = max - min;
    const low = this.data.low[i] - width / 2;
    this.zoomTo([low, low + width], { quiet: true });
  }

  goTo(i) {
    if (i < 0) return;
    this.current = i;
    this.reveal(i);
    this.mark(this.focusMark, i);
    const box = this.boxOf(i);
    if (box) {
      this.focusMark.scrollIntoView({ block: "nearest", inline: "nearest" });
      const over = this.plot.over.getBoundingClientRect();
      this.showTip(i, over.left + box.left, over.top + box.top + box.height);
    }
    const block = blockAt(this.data, i);
    this.say(`${block.state} block ${block.ulid.slice(0, 10)}…, ${span(block.low, block.high)}, ${counted(block.rows, "row")}, ${bytes(block.bytes)}, level ${block.level || "unknown"}, ${streamName(block.stream)}`);
  }

  /** The previous or next block in the row, or the nearest in time in the row above or below. */
  neighbour(dx, dy) {
    const spot = this.spots.get(this.current);
    if (!spot) return this.first();
    if (dx) return spot.row.places[Math.min(Math.max(spot.at + dx, 0), spot.row.places.length - 1)];
    const row = this.rows[Math.min(Math.max(this.rows.indexOf(spot.row) + dy, 0), this.rows.length - 1)];
    if (row === spot.row) return this.current;
    const middle = (this.data.low[this.current] + this.data.high[this.current]) / 2;
    const away = (i) => Math.abs((this.data.low[i] + this.data.high[i]) / 2 - middle);
    return row.places.reduce((best, i) => (away(i) < away(best) ? i : best), row.places[0]);
  }

  onkey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.rows.length) return;
    const row = this.spots.get(this.current)?.row.places ?? this.rows[0].places;
    const actions = {
      ArrowLeft: () => this.goTo(this.neighbour(event.shiftKey ? -10 : -1, 0)),
      ArrowRight: () => this.goTo(this.neighbour(event.shiftKey ? 10 : 1, 0)),
      ArrowUp: () => this.goTo(this.neighbour(0, -1)),
      ArrowDown: () => this.goTo(this.neighbour(0, 1)),
      Home: () => this.goTo(row[0]),
      End: () => this.goTo(row[row.length - 1]),
      Enter: () => this.choose(this.current < 0 ? this.first() : this.current),
      " ": () => this.choose(this.current < 0 ? this.first() : this.current),
      Escape: () => this.choose(-1),
      "+": () => this.zoomBy(0.5, this.standing()),
      "=": () => this.zoomBy(0.5, this.standing()),
      "-": () => this.zoomBy(2, this.standing()),
      0: () => this.zoomTo(null),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** The position of the current block, as a share of the width. */
  standing() {
    const box = this.boxOf(this.current);
    return box ? Math.min(Math.max((box.left + box.width / 2) / this.plot.over.clientWidth, 0), 1) : 0.5;
  }

  say(text) {
    this.said.textContent = text;
  }

  describe() {
    this.canvasHost.setAttribute("aria-label", `${counted(this.places.length, "block")} of ${this.data.table} on a timeline. ${KEYS}`);
    this.notice();
  }

  notice() {
    if (!this.data || !this.plot) return;
    const [min, max] = this.shown();
    const outside = this.places.filter((i) => this.spots.has(i) && (this.data.high[i] < min || this.data.low[i] > max)).length;
    const without = this.data.size - this.places.length;
    const undrawn = this.undrawn.reduce((sum, row) => sum + row.places.length, 0);
    this.note.textContent = [
      `${counted(this.places.length - outside - undrawn, "block")} shown, ${span(Math.ceil(min), Math.floor(max))} UTC`,
      outside ? `${counted(outside, "block")} outside these times` : "",
      undrawn ? `${counted(undrawn, "block")} in ${counted(this.undrawn.length, "more row")} not drawn: filter by a label` : "",
      without ? `${counted(without, "block")} filtered out` : "",
    ].filter(Boolean).join(" · ");
  }
}

function clamp([low, high], [least, most]) {
  const width = Math.max(high - low, LEAST_SPAN_MS);
  const room = most - least;
  if (width >= room) return null;
  const from = Math.min(Math.max(low, least), most - width);
  return [from, from + width];
}
