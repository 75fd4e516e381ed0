// An answer in memory, column by column as Arrow holds it. Values become texts only when they are shown; whole numbers
// of 64 bits, decimals and times are exact to their last digit.

import { tableFromIPC } from "./vendor.js";

const ID = { int: 2, float: 3, binary: 4, bool: 6, decimal: 7, date: 8, time: 9, timestamp: 10, fixed: 15, largeBinary: 19, binaryView: 23 };
const TYPE_NAMES = {
  [-1]: "text", 1: "null", 2: "integer", 3: "float", 4: "binary", 5: "text", 6: "boolean", 7: "decimal", 8: "date", 9: "time",
  10: "timestamp", 11: "interval", 12: "list", 13: "struct", 14: "union", 15: "binary", 16: "list", 17: "map", 18: "duration",
  19: "binary", 20: "text", 21: "list", 23: "binary", 24: "text",
};
const PER_SECOND = [1n, 1_000n, 1_000_000n, 1_000_000_000n];

/** An answer of at most `limit` rows; one row more was asked for, to know whether there are more. */
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

  get typeName() { return TYPE_NAMES[this.id] ?? "value"; }
  get isFraction() { return this.id === ID.float || (this.id === ID.decimal && this.type.scale > 0); }
  get isRight() { return this.kind === "number"; }

  /** The value as it reads; null for none. */
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
    if (typeof value === "object") return JSON.stringify(value, readable);
    return String(value);
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

  // What stands in the buffer, before it is made milliseconds: so that nanoseconds stay.
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

function floorDivide(value, by) {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

function stamp(raw, perSecond, zone) {
  const seconds = floorDivide(raw, perSecond);
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime())) return `${raw}/${perSecond} s`;
  return `${date.toISOString().replace(/\.000Z$/, "")}${fraction(raw - seconds * perSecond, perSecond)}${zone ? "Z" : ""}`;
}

function clock(raw, perSecond) {
  const seconds = raw / perSecond;
  const two = (value) => String(value).padStart(2, "0");
  return `${two(seconds / 3600n)}:${two(seconds / 60n % 60n)}:${two(seconds % 60n)}${fraction(raw % perSecond, perSecond)}`;
}

function fraction(rest, perSecond) {
  if (rest === 0n) return "";
  return `.${String(rest).padStart(String(perSecond).length - 1, "0").replace(/0+$/, "")}`;
}

function day(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().slice(0, 10);
}

function decimal(value, scale) {
  const digits = String(value < 0 ? -value : value).padStart(scale + 1, "0");
  const whole = scale > 0 ? `${digits.slice(0, -scale)}.${digits.slice(-scale)}` : digits;
  return value < 0 ? `-${whole}` : whole;
}

function hex(bytes) {
  const shown = Array.from(bytes.subarray(0, 256), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return bytes.length > 256 ? `${shown}… (${bytes.length} bytes)` : shown;
}

function readable(_key, value) {
  if (typeof value === "bigint") return value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER ? Number(value) : String(value);
  if (value instanceof Uint8Array) return hex(value);
  if (ArrayBuffer.isView(value)) return Array.from(value);
  if (value instanceof Map) return Object.fromEntries(value);
  return value;
}
