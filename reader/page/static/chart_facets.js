// Facets: the chart of a result once for each value of a column, as small multiples. All of them have the same series in the same
// colours and the same axes, so that they can be compared. Pure functions over a Result.

import { seriesOf } from "./chart_data.js";

export const MOST_FACETS = 12;

/** The columns that a chart may be drawn for each value of, as places. */
export const facetable = (result) => result.columns.map((_, place) => place).filter((place) => !result.columns[place].isFraction);

/** The charts of a choice: {whole, panels: [{name, data}], ranges, refused}. Without a column of facets there is one panel without
 *  a name. `ranges` is {x, y}, each [least, most] or null; `refused` says why there are no panels. */
export function panelsOf(result, choice) {
  if (choice.facet === null || choice.facet === undefined) {
    const whole = seriesOf(result, choice);
    return { whole, panels: [{ name: null, data: whole }], ranges: null, refused: null };
  }
  const rows = rowsByValue(result, choice.facet);
  if (rows === null) {
    return { whole: null, panels: [], ranges: null, refused: `The column ${result.columns[choice.facet].name} has more than ${MOST_FACETS} values, and at most ${MOST_FACETS} charts are drawn: choose another column, or select fewer of its values.` };
  }
  const whole = seriesOf(result, choice);
  const fixed = { names: whole.series.map(({ name }) => name), labels: whole.labels };
  const panels = [...rows].map(([name, own]) => ({ name, data: seriesOf(partOf(result, own), choice, fixed) }));
  return { whole, panels, ranges: { x: rangeOf([whole.xs]), y: rangeOf(panels.flatMap(({ data }) => data.series.map(({ values }) => values))) }, refused: null };
}

// The rows of each value, in the order in which the values come; null for more values than there may be.
function rowsByValue(result, place) {
  const found = new Map();
  for (let row = 0; row < result.rows; row += 1) {
    const value = result.columns[place].text(row) ?? "null";
    const own = found.get(value);
    if (own) own.push(row);
    else if (found.size === MOST_FACETS) return null;
    else found.set(value, [row]);
  }
  return found;
}

// A result of some rows of another one.
const partOf = (result, rows) => ({
  rows: rows.length,
  columns: result.columns.map((column) => ({ name: column.name, kind: column.kind, isFraction: column.isFraction, text: (row) => column.text(rows[row]), number: (row) => column.number(rows[row]) })),
});

function rangeOf(lists) {
  let least = null;
  let most = null;
  for (const list of lists) for (const value of list) if (value !== null) {
    if (least === null || value < least) least = value;
    if (most === null || value > most) most = value;
  }
  return least === null ? null : [least, most];
}
