// Values as text with all digits, alone and inside lists, structs and maps, which look like JSON. Long numbers have no
// quotes there: people read them, not a parser whose numbers are doubles.

const ID = { decimal: 7, date: 8, timestamp: 10, list: 12, struct: 13, fixedList: 16, map: 17, dictionary: -1 };

/** A nested value of an Arrow type. */
export function readable(value, type) {
  if (value === null || value === undefined) return "null";
  if (type.typeId === ID.dictionary) return readable(value, type.dictionary);
  if (type.typeId === ID.decimal) return decimal(value, type.scale);
  if (type.typeId === ID.date) return JSON.stringify(day(Number(value)));
  if (type.typeId === ID.timestamp && type.unit < 3) return JSON.stringify(stamp(BigInt(Math.round(value * 1000)), 1_000_000n, type.timezone));
  if (type.typeId === ID.struct) return `{${type.children.map(({ name, type: kind }) => `${JSON.stringify(name)}:${readable(value[name], kind)}`).join(",")}}`;
  if (type.typeId === ID.map) {
    const { type: kind } = type.children[0].type.children[1];
    return `{${[...value].map(([key, held]) => `${JSON.stringify(String(key))}:${readable(held, kind)}`).join(",")}}`;
  }
  if (type.typeId === ID.list || type.typeId === ID.fixedList) return `[${[...value].map((held) => readable(held, type.children[0].type)).join(",")}]`;
  if (typeof value === "bigint") return String(value);
  if (value instanceof Uint8Array) return JSON.stringify(hex(value));
  return JSON.stringify(value, plain) ?? "null";
}

export function day(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString().slice(0, 10);
}

function floorDivide(value, by) {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

export function stamp(raw, perSecond, zone) {
  const seconds = floorDivide(raw, perSecond);
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime())) return `${raw}/${perSecond} s`;
  return `${date.toISOString().replace(/\.000Z$/, "")}${fraction(raw - seconds * perSecond, perSecond)}${zone ? "Z" : ""}`;
}

export function fraction(rest, perSecond) {
  if (rest === 0n) return "";
  return `.${String(rest).padStart(String(perSecond).length - 1, "0").replace(/0+$/, "")}`;
}

export function decimal(value, scale) {
  const digits = String(value < 0 ? -value : value).padStart(scale + 1, "0");
  const whole = scale > 0 ? `${digits.slice(0, -scale)}.${digits.slice(-scale)}` : digits;
  return value < 0 ? `-${whole}` : whole;
}

export function hex(bytes) {
  const shown = Array.from(bytes.subarray(0, 256), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return bytes.length > 256 ? `${shown}… (${bytes.length} bytes)` : shown;
}

/** Bytes as the gateway takes them in JSON. */
export const base64 = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

// Other types (intervals, unions): the text of Arrow.
function plain(_key, value) {
  if (typeof value === "bigint") return String(value);
  if (ArrayBuffer.isView(value)) return Array.from(value, (one) => (typeof one === "bigint" ? String(one) : one));
  return value instanceof Map ? Object.fromEntries(value) : value;
}
