// The columns that a chart uses, and the series that it draws. Pure functions over a Result.

export const MOST_POINTS = 200_000;
const MOST_BARS = 60;
const MOST_SERIES = 12;

/** The default chart of a result: {kind, x, ys, split}, with numbers of columns; null if nothing can be drawn. */
export function suggest(result) {
  const places = result.columns.map((_, place) => place);
  const every = places.filter((place) => result.columns[place].kind === "number");
  const broken = every.filter((place) => result.columns[place].isFraction);
  const numbers = result.rows > MOST_BARS && broken.length ? broken : every; // whole numbers of many rows are often ids
  const time = places.find((place) => result.columns[place].kind === "time");
  const text = places.find((place) => ["text", "truth"].includes(result.columns[place].kind));
  if (numbers.length === 0 || result.rows === 0) return null;
  if (time !== undefined) {
    const split = text !== undefined && numbers.length === 1 && isShort(result, text) ? text : null;
    return { kind: "line", x: time, ys: numbers.slice(0, 3), split };
  }
  if (text !== undefined) return { kind: "bars", x: text, ys: numbers.slice(0, 3), split: null };
  if (numbers.length === 1) return { kind: "bars", x: null, ys: numbers, split: null };
  return { kind: result.rows > MOST_BARS ? "line" : "bars", x: numbers[0], ys: numbers.slice(1, 4), split: null };
}

/** The data of a chart: {xs, isTime, labels (bars), series: [{name, values}], note}. `fixed`, {names, labels}, are the series and the
 *  bars of a chart that this one is a part of: it has just these. */
export function seriesOf(result, choice, fixed = null) {
  return choice.kind === "line" ? lines(result, choice, fixed) : bars(result, choice, fixed);
}

const numbered = (names) => new Map((names ?? []).map((name, place) => [name, place]));

function lines(result, { x, ys, split }, fixed) {
  const rows = Math.min(result.rows, MOST_POINTS);
  const isTime = x !== null && result.columns[x].kind === "time";
  const at = (row) => (x === null ? row + 1 : result.columns[x].number(row));
  const found = numbered(fixed?.names);
  const points = [];
  for (let row = 0; row < rows; row += 1) {
    const place = at(row);
    if (place === null) continue;
    for (const y of ys) {
      const name = nameOf(result, y, ys, split, row);
      if (!found.has(name)) { if (fixed) continue; found.set(name, found.size); }
      points.push([place, found.get(name), result.columns[y].number(row)]);
    }
  }
  const names = [...found.keys()].slice(0, MOST_SERIES);
  const xs = [...new Set(points.map(([place]) => place))].sort((one, two) => one - two);
  const where = new Map(xs.map((place, index) => [place, index]));
  const series = names.map((name) => ({ name, values: new Array(xs.length).fill(null) }));
  for (const [place, index, value] of points) if (index < series.length && value !== null) series[index].values[where.get(place)] = value;
  return { xs, isTime, labels: null, series, note: notes(result.rows, rows, found.size, names.length, "points") };
}

function bars(result, { x, ys, split }, fixed) {
  const rows = Math.min(result.rows, MOST_POINTS);
  const labels = numbered(fixed?.labels);
  const found = numbered(fixed?.names);
  const cells = [];
  for (let row = 0; row < rows; row += 1) {
    const label = x === null ? String(row + 1) : result.columns[x].text(row) ?? "null";
    if (!labels.has(label)) { if (fixed || labels.size === MOST_BARS) continue; labels.set(label, labels.size); }
    for (const y of ys) {
      const name = nameOf(result, y, ys, split, row);
      if (!found.has(name)) { if (fixed) continue; found.set(name, found.size); }
      cells.push([labels.get(label), found.get(name), result.columns[y].number(row)]);
    }
  }
  const names = [...found.keys()].slice(0, MOST_SERIES);
  const series = names.map((name) => ({ name, values: new Array(labels.size).fill(null) }));
  for (const [place, index, value] of cells) if (index < series.length && value !== null) series[index].values[place] = (series[index].values[place] ?? 0) + value;
  const all = new Set();
  if (x !== null) for (let row = 0; row < rows && all.size <= MOST_BARS; row += 1) all.add(result.columns[x].text(row));
  const cut = x === null ? result.rows > MOST_BARS : all.size > MOST_BARS;
  return {
    xs: [...labels.values()], isTime: false, labels: [...labels.keys()], series,
    note: [cut ? `The first ${MOST_BARS} bars are drawn.` : "", notes(rows, rows, found.size, names.length, "points")].filter(Boolean).join(" "),
  };
}

// Whether a column has a few repeated names, so that each can be a series.
function isShort(result, place) {
  const found = new Set();
  for (let row = 0; row < Math.min(result.rows, 5_000); row += 1) if (found.add(result.columns[place].text(row)).size > MOST_SERIES) return false;
  return found.size < result.rows;
}

function nameOf(result, y, ys, split, row) {
  const own = result.columns[y].name;
  if (split === null) return own;
  const part = result.columns[split].text(row) ?? "null";
  return ys.length > 1 ? `${part} · ${own}` : part;
}

function notes(all, drawn, series, shown, noun) {
  const found = [];
  if (drawn < all) found.push(`The first ${drawn.toLocaleString("en-GB")} ${noun} are drawn.`);
  if (shown < series) found.push(`${shown} of ${series} series are drawn.`);
  return found.join(" ");
}
