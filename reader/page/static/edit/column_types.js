// What the page knows of a column's type: which texts are values of it, how JSON has them, and how a value of JSON is shown.
// The gateway decides; what is found here spares a request. A text is exactly a value, or it is refused.

import { bytes } from "../format.js";

const WHOLE = /^[+-]?\d+$/;
const FRACTION = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const SPECIAL = { nan: "NaN", inf: "Infinity", infinity: "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity" };
const BITS = { int8: 8, int16: 16, int32: 32, int: 64, uint8: 8, uint16: 16, uint32: 32, uint64: 64 };

/** The family of a column of the gateway: {name, type, kind}. */
export function familyOf({ type, kind }) {
  if (kind) return kind;
  if (type in BITS) return "whole";
  if (["float", "double", "halffloat"].includes(type)) return "fraction";
  if (type.startsWith("decimal(")) return "decimal";
  if (type.startsWith("timestamp[")) return "stamp";
  return { bool: "truth", date: "date", time: "time", string: "text" }[type] ?? "other";
}

/** Whether the page can write values of it: bytes and nested values come by other ways. A file's value is its handle, as JSON. */
export const isWritable = (column) => familyOf(column) !== "other";

/** Whether an empty text is a value of it, and not the absence of one. */
export const hasEmpty = (column) => ["text", "entity", "link"].includes(familyOf(column));

/** Why a text (null: no value) cannot be in the column; null if it can. */
export function problemOf(text, column) {
  if (text === null) return column.nullable === false ? "this column is never null" : null;
  const family = familyOf(column);
  const trimmed = text.trim();
  if (family === "whole") return wholeProblem(trimmed, column.type);
  if (family === "fraction") return FRACTION.test(trimmed) || trimmed.toLowerCase() in SPECIAL ? null : "expected a number, such as 1.5";
  if (family === "decimal") return FRACTION.test(trimmed) ? null : "expected a number, such as 12.50";
  if (family === "truth") return ["true", "false"].includes(trimmed) ? null : "expected true or false";
  if (family === "date") return isDay(trimmed) ? null : "expected a date, such as 2026-01-31";
  if (family === "stamp") return isStamp(trimmed) ? null : "expected a date and a time, such as 2026-01-31 12:30:00";
  if (family === "time") return /^\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(trimmed) ? null : "expected a time, such as 12:30:00";
  if (column.max_length && [...text].length > column.max_length) return `expected at most ${column.max_length} characters, found ${[...text].length}`;
  if (family === "link" && !/^[A-Za-z][A-Za-z0-9+.-]*:\/\/\S+$/.test(text)) return "expected an absolute URL, with its scheme";
  return null;
}

/** The value as JSON has it; the text has no problem. */
export function fragmentOf(text, column) {
  if (text === null) return "null";
  const trimmed = text.trim();
  const family = familyOf(column);
  if (family === "whole") return String(BigInt(trimmed.replace(/^\+/, "")));
  if (family === "fraction") return trimmed.toLowerCase() in SPECIAL ? JSON.stringify(SPECIAL[trimmed.toLowerCase()]) : numberOf(trimmed);
  if (family === "truth" || family === "file") return trimmed;
  return JSON.stringify(hasEmpty(column) ? text : trimmed);
}

/** A value of the gateway's JSON as the grid shows it. */
export function textOf(value, column) {
  if (value === null || value === undefined) return null;
  const family = familyOf(column);
  if (family === "stamp") return String(value).replace(" ", "T").replace(/(\.\d*?)0+(?=Z?$)/, "$1").replace(/\.(?=Z?$)/, "");
  if (family === "time") return String(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A value as people read it: of a file its name and size, of others their text. */
export function labelOf(text, column) {
  if (typeof text !== "string" || !column || familyOf(column) !== "file") return text;
  const handle = handleOf(text);
  return handle ? `${handle.name} (${bytes(handle.bytes)})` : text;
}

/** The handle of a file: {id, name, content_type, bytes, sha256}; null for what is none. */
export function handleOf(text) {
  try { return JSON.parse(text); } catch { return null; }
}

/** Whether two texts are the same value. */
export function isSame(one, other, column) {
  if (one === null || other === null || one === other) return one === other;
  const family = familyOf(column);
  if (family === "fraction") return Number(one) === Number(other);
  return !hasEmpty(column) && !["other", "file"].includes(family) && textOf(one.trim(), column) === textOf(other.trim(), column);
}

function wholeProblem(text, type) {
  if (!WHOLE.test(text)) return "expected a whole number";
  const unsigned = type.startsWith("u");
  const low = unsigned ? 0n : -(1n << BigInt(BITS[type] - 1));
  const high = (1n << BigInt(unsigned ? BITS[type] : BITS[type] - 1)) - 1n;
  const value = BigInt(text.replace(/^\+/, ""));
  return value < low || value > high ? `expected a number from ${low} to ${high}` : null;
}

// JSON has no numbers that begin with a plus or a point.
function numberOf(text) {
  const [, sign, whole, rest] = /^([+-]?)0*(\d*)(.*)$/.exec(text);
  const filled = rest.replace(/^\.(?=$|[eE])/, "");
  return `${sign === "-" ? "-" : ""}${whole || "0"}${filled}`;
}

function isDay(text) {
  const found = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
  if (!found) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

function isStamp(text) {
  const found = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?$/.exec(text);
  return Boolean(found) && isDay(found[1]) && Number(found[2] ?? 0) < 24 && Number(found[3] ?? 0) < 60 && Number(found[4] ?? 0) < 60;
}
