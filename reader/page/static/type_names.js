// The name of a column's type, as a table's page, the command line and the documentation show it.

const UNITS = ["s", "ms", "us", "ns"];

const NAMES = {
  1: () => "null",
  2: ({ bitWidth, signed }) => (signed ? (bitWidth === 64 ? "int" : `int${bitWidth}`) : `uint${bitWidth}`),
  3: ({ precision }) => ["halffloat", "float", "double"][precision],
  4: () => "binary", 5: () => "string", 6: () => "bool",
  7: ({ precision, scale }) => `decimal(${precision}, ${scale})`,
  8: ({ unit }) => (unit === 0 ? "date" : "date64[ms]"),
  9: ({ unit, bitWidth }) => (unit === 2 ? "time" : `time${bitWidth}[${UNITS[unit]}]`),
  10: ({ unit, timezone }) => `timestamp[${UNITS[unit]}${timezone ? `, ${timezone}` : ""}]`,
  11: () => "interval",
  12: ({ children }) => `list<${typeName(children[0].type)}>`,
  13: ({ children }) => `struct<${children.map(({ name, type }) => `${named(name)}:${typeName(type)}`).join(", ")}>`,
  14: () => "union",
  15: ({ stride }) => `fixed_size_binary[${stride}]`,
  16: ({ children, stride }) => `fixed_size_list<${children[0].name}: ${typeName(children[0].type)}>[${stride}]`,
  17: ({ children }) => `map<${children[0].type.children.map(({ type }) => typeName(type)).join(", ")}>`,
  18: ({ unit }) => `duration[${UNITS[unit]}]`,
  19: () => "binary", 20: () => "string", 21: ({ children }) => `list<${typeName(children[0].type)}>`, 23: () => "binary", 24: () => "string",
  [-1]: ({ dictionary }) => typeName(dictionary),
};

export const typeName = (type) => NAMES[type.typeId]?.(type) ?? String(type);

const named = (name) => (/^[A-Za-z0-9_]+$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
