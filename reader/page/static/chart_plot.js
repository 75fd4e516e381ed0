// One drawn chart, by the chart library: its axes, scales and series.

import { count } from "./format.js";
import { uPlot } from "../static/vendor/chart.js";

/** Draw `data` into an element. `look` is {kind, width, height, colours, ranges, hasLegend}; `ranges` are those of all facets, or null. */
export function plotOf(place, data, { kind, width, height, colours, ranges, hasLegend }) {
  const axis = { stroke: colours.dim, grid: { stroke: colours.grid, width: 1 }, ticks: { stroke: colours.grid, width: 1 }, font: "12px system-ui, sans-serif" };
  const slanted = data.labels && (data.labels.length > 12 || (ranges && isCrowded(data.labels, width)));
  const across = data.labels
    ? { ...axis, grid: { show: false }, splits: (_plot, _axis, low, high) => data.xs.filter((at) => at >= low && at <= high), values: (plot, splits) => thinned(plot, splits, data.labels), rotate: slanted ? 40 : 0, size: slanted ? 76 : 36 }
    : { ...axis, space: 76, values: data.isTime ? times : (_plot, splits) => splits.map(short) };
  const x = data.labels ? { time: false, range: (_plot, low, high) => [low - 0.6, high + 0.6] } : { time: data.isTime, ...(ranges ? { range: () => wide(ranges.x, data.isTime) } : {}) };
  const y = { range: (_plot, low, high) => spread(...(ranges ? ranges.y ?? [null, null] : [low, high]), kind) };
  return new uPlot({
    width, height, padding: [12, data.isTime ? 40 : 24, 4, 4], tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"), legend: { show: hasLegend },
    scales: { x, y },
    axes: [across, { ...axis, size: (_plot, values) => upright(values, slanted), values: (_plot, splits) => splits.map(short) }],
    series: [
      { label: data.labels ? "at" : data.isTime ? "time (UTC)" : "x", value: (_plot, value) => (value === null ? "–" : data.labels ? data.labels[value] : data.isTime ? new Date(value * 1000).toISOString().slice(0, 19).replace("T", " ") : value) },
      ...data.series.map(({ name }, at) => {
        const stroke = colours.series[at];
        const dash = colours.dashes[at] ? { dash: colours.dashes[at] } : {};
        const base = { label: name, stroke, value: (_plot, value) => (value === null ? "–" : count(value)), spanGaps: true };
        return data.labels
          ? { ...base, fill: stroke, width: 0, points: { show: false }, paths: barPaths(at, data.series.length) }
          : { ...base, width: 2, ...dash, points: { show: data.xs.length < 80, size: 6, fill: stroke } };
      }),
    ],
  }, [data.xs, ...data.series.map(({ values }) => values)], place);
}

// Bars of several series are next to each other, within the width of one.
function barPaths(place, series) {
  if (series === 1) return uPlot.paths.bars({ size: [0.72, 80], radius: 0.12 });
  return uPlot.paths.bars({ size: [0.8 / series, 1000], align: 0, radius: 0.1, disp: {
    x0: { unit: 1, values: (plot) => plot.data[0].map((x) => x - 0.4 + 0.8 * place / series) },
    size: { unit: 1, values: (plot) => plot.data[0].map(() => 0.76 / series) },
  } });
}

// A single place of the x axis has some room beside it.
function wide(range, isTime) {
  const [low, high] = range ?? [0, 1];
  const room = low === high ? (isTime ? 43_200 : 0.5) : 0;
  return [low - room, high + room];
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

// Whether names that are next to each other would touch in a chart as narrow as this.
const isCrowded = (labels, width) => labels.length * (7.4 * Math.max(...labels.map((label) => clipped(label).length)) + 8) > width - 90;

// Wide enough for the longest label of the y axis, and for the first label of the x axis.
const upright = (values, slanted) => Math.max(slanted ? 82 : 64, 22 + 7.4 * Math.max(0, ...(values ?? []).map((text) => text.length)));

const clipped = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

function short(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (size >= unit) return `${Number((value / unit).toPrecision(4))}${letter}`;
  return String(Number(value.toPrecision(4)));
}
