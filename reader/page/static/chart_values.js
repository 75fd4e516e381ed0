// The values that a chart draws, as CSV: a line for each place of the x axis, a column for each series. Numbers are those of the
// chart, so they have 15 digits; all digits are in the download of the result.

/** The CSV of {xs, isTime, labels, series: [{name, values}]}; `xName` is the name of the column of the x axis. */
export function toCsv({ xs, isTime, labels, series }, xName) {
  const place = (x) => (labels ? labels[x] : isTime ? new Date(x * 1000).toISOString() : x);
  const lines = xs.map((x, at) => [place(x), ...series.map(({ values }) => values[at] ?? "")]);
  return [[xName, ...series.map(({ name }) => name)], ...lines].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

function cell(value) {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
