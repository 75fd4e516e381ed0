// A result in the order of one of its columns, by place for names may repeat: the result itself stays as it came.
// Null comes last in both directions, and NaN after the numbers. Rows of equal values stay as they came.

export class Ordered {
  constructor(result, { place, descending }) {
    const keys = Array.from({ length: result.rows }, (_, row) => result.columns[place].key(row));
    const places = Uint32Array.from(keys.keys()).sort((a, b) => compare(keys[a], keys[b], descending) || a - b);
    this.columns = result.columns.map((one) => placed(one, places));
    this.rows = result.rows;
    this.cut = result.cut;
  }
}

/** The next order after a choice of the column at a place: ascending, descending, as it came. */
export function next(order, place) {
  if (order?.place !== place) return { place, descending: false };
  return order.descending ? null : { place, descending: true };
}

function placed(column, places) {
  const { name, id, type, kind, length, typeName, isFraction, isRight } = column;
  return { name, id, type, kind, length, typeName, isFraction, isRight, text: (row) => (row < places.length ? column.text(places[row]) : null), number: (row) => column.number(places[row]) };
}

function compare(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const found = notNumbers(a, b) ?? (a < b ? -1 : a > b ? 1 : 0);
  return descending ? -found : found;
}

function notNumbers(a, b) {
  return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : null;
}
