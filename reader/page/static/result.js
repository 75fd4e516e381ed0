// A result in memory, as columns of Arrow. Values become text only when they are shown; 64-bit integers, decimals and
// times are exact to the last digit.

import { base64, day, decimal, fraction, hex, readable, stamp } from "./nested.js";
import { typeName } from "./type_names.js";
import { tableFromIPC } from "./vendor.js";

const ID = { int: 2, float: 3, binary: 4, bool: 6, decimal: 7, date: 8, time: 9, timestamp: 10, fixed: 15, largeBinary: 19, binaryView: 23 };
const PER_SECOND = [1n, 1_000n, 1_000_000n, 1_000_000_000n];

/** A result of at most `limit` rows; one more row was requested, to know whether there are more. */
export function decode(bytes, limit = Infinity) {
  const table = tableFromIPC(bytes, { useBigInt: true, useDecimalInt: true });
  return new Result(table.schema.fields.map((field, place) => new Column(field.name, table.getChildAt(place), field.type)), limit);
}

export class Result {
  constructor(columns, limit) {
    const whole = columns.length ? columns[0].length : 0;
    this.columns = columns;
    this.rows = Math.min(whole, limit);
    this.cut = whole > limit;
  }
}

export class Column {
  #data;

  constructor(name, data, type) {
    this.name = name;
    this.#data = data;
    this.id = type.typeId;
    this.type = type;
    this.length = data?.length ?? 0;
    this.kind = kindOf(type.typeId);
  }

  get typeName() { return typeName(this.type); }
  get isFraction() { return this.id === ID.float || (this.id === ID.decimal && this.type.scale > 0); }
  get isRight() { return this.kind === "number"; }

  /** The value as text, or null. */
  text(row) {
    if (this.id === ID.timestamp || this.id === ID.time) {
      const raw = this.#raw(row);
      return raw === null ? null : this.id === ID.time ? clock(BigInt(raw), PER_SECOND[this.type.unit]) : stamp(raw, PER_SECOND[this.type.unit], this.type.timezone);
    }
    const value = this.#data.at(row);
    if (value === null || value === undefined) return null;
    if (this.id === ID.date) return day(Number(value));
    if (this.id === ID.decimal) return decimal(value, this.type.scale);
    if (value instanceof Uint8Array) return hex(value);
    return typeof value === "object" ? readable(value, this.type) : String(value);
  }

  /** The value as the gateway takes it for a part of a key: bytes as base64. */
  named(row) {
    const value = this.#data.at(row);
    return value instanceof Uint8Array ? base64(value) : this.text(row);
  }

  /** What the rows are put in order by: a number, a text or a truth, exactly; null last. */
  key(row) {
    if (this.id === ID.timestamp || this.id === ID.time) return this.#raw(row);
    const value = this.#data.at(row);
    if (value === null || value === undefined) return null;
    return typeof value === "object" ? this.text(row) : value;
  }

  /** The value as a point of a chart: a number, seconds since the epoch for a time, or null. */
  number(row) {
    if (this.kind === "time") {
      if (this.id === ID.date) { const value = this.#data.at(row); return value === null ? null : Number(value) / 1000; }
      const raw = this.#raw(row);
      return raw === null ? null : Number(raw) / Number(PER_SECOND[this.type.unit]);
    }
    const value = this.#data.at(row);
    if (value === null || value === undefined) return null;
    const number = this.id === ID.decimal ? Number(decimal(value, this.type.scale)) : Number(value);
    return Number.isFinite(number) ? number : null;
  }

  // The raw value of the buffer, which keeps nanoseconds.
  #raw(row) {
    const { data, offsets } = this.#data;
    let low = 0;
    let high = data.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (offsets[middle] <= row) low = middle; else high = middle - 1;
    }
    const batch = data[low];
    const place = row - offsets[low];
    return batch.nullCount && batch.validity && !batch.isValid(place) ? null : batch.values[place];
  }
}

function kindOf(id) {
  if (id === ID.int || id === ID.float || id === ID.decimal) return "number";
  if (id === ID.timestamp || id === ID.date) return "time";
  return id === ID.bool ? "truth" : "text";
}

function clock(raw, perSecond) {
  const seconds = raw / perSecond;
  const two = (value) => String(value).padStart(2, "0");
  return `${two(seconds / 3600n)}:${two(seconds / 60n % 60n)}:${two(seconds % 60n)}${fraction(raw % perSecond, perSecond)}`;
}
