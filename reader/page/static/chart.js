// A chart of a result: lines over time or numbers, bars over names, with controls for the columns.

import { seriesOf, suggest } from "./chart_data.js";
import { toPng, toSvg } from "./chart_file.js";
import { toCsv } from "./chart_values.js";
import { announce, fill, h, labelled } from "./dom.js";
import { give } from "./downloads.js";
import { count } from "./format.js";
import { uPlot } from "/static/vendor/chart.js";

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];

export class Chart {
  #plot = null;
  #size = null;
  #picture = null;

  /** `name` is that of its files. */
  constructor(result, name = "chart") {
    this.result = result;
    this.name = name;
    this.choice = suggest(result);
    this.controls = h("div", { class: "chart-controls" });
    this.area = h("div", { class: "chart-area" });
    this.note = h("p", { class: "hint" });
    const file = (form, make) => h("button", { type: "button", "data-chart-file": form, on: { click: () => this.#save(form, make) } }, form.toUpperCase());
    this.files = h("div", { class: "row chart-files", role: "group", "aria-label": "Download the chart" }, h("span", { class: "label", "aria-hidden": "true" }, "Download the chart"),
      file("svg", (plot, picture) => new Blob([toSvg(plot, picture)], { type: "image/svg+xml" })), file("png", toPng),
      file("csv", (_plot, { data }) => new Blob([toCsv(data, this.choice.x === null ? "row" : result.columns[this.choice.x].name)], { type: "text/csv" })));
    this.element = h("div", { class: "chart" }, this.controls, this.area, this.note, this.files);
    if (this.choice) this.#choose();
    else fill(this.note, "A chart needs at least one row and a column of numbers, for example count(*) with GROUP BY.");
  }

  start() {
    if (!this.choice) return;
    this.#size = new ResizeObserver(() => this.#plot?.setSize({ width: this.area.clientWidth, height: this.#height() }));
    this.#size.observe(this.area);
    this.draw();
  }

  stop() {
    this.#size?.disconnect();
    this.#plot?.destroy();
    this.#plot = null;
  }

  #height() { return Math.max(220, Math.min(420, innerHeight - 500, this.area.clientWidth * 0.6)); }

  #choose() {
    const { columns } = this.result;
    const change = (part) => { this.choice = { ...this.choice, ...part }; this.draw(); };
    const options = (places, chosen, none) => [
      none ? h("option", { value: "", selected: chosen === null }, none) : null,
      ...places.map((place) => h("option", { value: place, selected: place === chosen }, columns[place].name)),
    ];
    const every = columns.map((_, place) => place);
    const select = (label, places, key, none) => labelled(label, h("select", {
      "data-choice": key, on: { change: (event) => change({ [key]: event.target.value === "" ? null : Number(event.target.value) }) },
    }, options(places, this.choice[key], none)));
    const kind = labelled("Chart", h("select", { "data-choice": "kind", on: { change: (event) => change({ kind: event.target.value }) } },
      ["line", "bars"].map((name) => h("option", { value: name, selected: this.choice.kind === name }, name === "line" ? "Lines" : "Bars"))));
    const numbers = every.filter((place) => columns[place].kind === "number");
    const ys = h("fieldset", { class: "field ys" }, h("legend", { class: "label" }, "Values"), numbers.map((place) => h("label", { class: "check" },
      h("input", { type: "checkbox", checked: this.choice.ys.includes(place), "data-y": place, on: { change: (event) => {
        const chosen = event.target.checked ? [...this.choice.ys, place] : this.choice.ys.filter((y) => y !== place);
        change({ ys: chosen.sort((one, two) => one - two) });
      } } }), columns[place].name)));
    fill(this.controls, kind, select("X axis", every, "x", "row"), select("One series per", every.filter((place) => ["text", "truth"].includes(columns[place].kind)), "split", "–"), ys);
  }

  draw() {
    this.#plot?.destroy();
    this.#plot = null;
    this.files.hidden = true;
    if (!this.choice || !this.area.isConnected) return;
    if (this.choice.ys.length === 0) { fill(this.note, "Choose at least one column of values."); return; }
    const data = seriesOf(this.result, this.choice);
    fill(this.note, data.note);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const strokes = data.series.map((_, place) => colour(COLOURS[place % COLOURS.length]));
    const dashes = data.series.map((_, place) => (place >= COLOURS.length ? [6, 4] : null));
    this.#picture = { data, isBars: data.labels !== null, colours: { ground: colour("--card"), text: colour("--text"), dim: colour("--dim"), grid: colour("--grid-line"), series: strokes, dashes } };
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--grid-line"), width: 1 }, ticks: { stroke: colour("--grid-line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const slanted = data.labels?.length > 12;
    const across = data.labels
      ? { ...axis, grid: { show: false }, splits: (_plot, _axis, low, high) => data.xs.filter((place) => place >= low && place <= high), values: (plot, splits) => thinned(plot, splits, data.labels), rotate: slanted ? 40 : 0, size: slanted ? 76 : 36 }
      : { ...axis, space: 76, values: data.isTime ? times : (_plot, splits) => splits.map(short) };
    this.area.setAttribute("role", "img");
    this.area.setAttribute("aria-label", described(data, this.choice.kind));
    this.#plot = new uPlot({
      width: this.area.clientWidth, height: this.#height(), padding: [12, data.isTime ? 40 : 24, 4, 4], tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { x: data.labels ? { time: false, range: (_plot, low, high) => [low - 0.6, high + 0.6] } : { time: data.isTime }, y: { range: (_plot, low, high) => spread(low, high, this.choice.kind) } },
      axes: [across, { ...axis, size: (_plot, values) => upright(values, slanted), values: (_plot, splits) => splits.map(short) }],
      series: [
        { label: data.labels ? "at" : data.isTime ? "time (UTC)" : "x", value: (_plot, value) => (value === null ? "–" : data.labels ? data.labels[value] : data.isTime ? new Date(value * 1000).toISOString().slice(0, 19).replace("T", " ") : value) },
        ...data.series.map(({ name }, place) => {
          const stroke = strokes[place];
          const dash = dashes[place] ? { dash: dashes[place] } : {};
          const base = { label: name, stroke, value: (_plot, value) => (value === null ? "–" : count(value)), spanGaps: true };
          return data.labels
            ? { ...base, fill: stroke, width: 0, points: { show: false }, paths: barPaths(place, data.series.length) }
            : { ...base, width: 2, ...dash, points: { show: data.xs.length < 80, size: 6, fill: stroke } };
        }),
      ],
    }, [data.xs, ...data.series.map(({ values }) => values)], this.area);
    this.files.hidden = false;
  }

  async #save(form, make) {
    try {
      give(await make(this.#plot, this.#picture), `${this.name}.${form}`);
      announce("Chart saved");
    } catch (error) {
      fill(this.note, error.message);
    }
  }
}

// Bars of several series are next to each other, within the width of one.
function barPaths(place, series) {
  if (series === 1) return uPlot.paths.bars({ size: [0.72, 80], radius: 0.12 });
  return uPlot.paths.bars({ size: [0.8 / series, 1000], align: 0, radius: 0.1, disp: {
    x0: { unit: 1, values: (plot) => plot.data[0].map((x) => x - 0.4 + 0.8 * place / series) },
    size: { unit: 1, values: (plot) => plot.data[0].map(() => 0.76 / series) },
  } });
}

function spread(low, high, kind) {
  if (low === null || high === null) return [0, 1];
  const [least, most] = kind === "bars" ? [Math.min(0, low), Math.max(0, high)] : [low, high];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least === 0 || (least > 0 && kind === "bars") ? least : least - room, most + room];
}

function thinned(plot, splits, labels) {
  const each = Math.max(1, Math.ceil((splits.length * 34) / Math.max(plot.width - 80, 100)));
  return splits.map((place) => (place % each === 0 && Number.isInteger(place) ? clipped(labels[place] ?? "") : ""));
}

// "12:00", with the day under it where it changes; for steps of days "5 Jan", with the year under it.
function times(_plot, splits, _axis, _space, step) {
  let before = "";
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000);
    const [day, clock] = date.toISOString().split(/[T.]/);
    const [text, under] = step >= 86_400
      ? [date.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }), day.slice(0, 4)]
      : [step < 60 ? clock : clock.slice(0, 5), day];
    if (under === before) return text;
    before = under;
    return `${text}\n${under}`;
  });
}

// Wide enough for the longest label of the y axis, and for the first label of the x axis.
const upright = (values, slanted) => Math.max(slanted ? 82 : 64, 22 + 7.4 * Math.max(0, ...(values ?? []).map((text) => text.length)));

const clipped = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (size >= unit) return `${Number((value / unit).toPrecision(4))}${letter}`;
  return String(Number(value.toPrecision(4)));
}

function described(data, kind) {
  const points = `${count(data.xs.length)} ${kind === "bars" ? "bars" : "points"}`;
  return `Chart of ${data.series.slice(0, 5).map(({ name }) => name).join(", ")}: ${points}. The table has the same values.`;
}
