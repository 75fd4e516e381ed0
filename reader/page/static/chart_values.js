// The values that a chart draws, as CSV: a line for each place of the x axis, a column for each series. Numbers are those of the
// chart, so they have 15 digits; all digits are in the download of the result.

/** The CSV of panels, [{name, data: {xs, isTime, labels, series: [{name, values}]}}]; `xName` is the name of the column of the x axis,
 *  `facetName` that of the facets, whose values are the first column; null without facets. */
export function toCsv(panels, xName, facetName = null) {
  const names = panels[0].data.series.map(({ name }) => name);
  const head = [...(facetName === null ? [] : [facetName]), xName, ...names];
  return [head, ...panels.flatMap(({ name, data }) => linesOf(data, facetName === null ? [] : [name]))].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

function linesOf({ xs, isTime, labels, series }, first) {
  const place = (x) => (labels ? labels[x] : isTime ? new Date(x * 1000).toISOString() : x);
  return xs.map((x, at) => [...first, place(x), ...series.map(({ values }) => values[at] ?? "")]);
}

function cell(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
