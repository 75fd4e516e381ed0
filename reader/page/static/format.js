// Numbers, sizes, times and durations as text. Pure functions.

const whole = new Intl.NumberFormat("en-GB");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));

/** "1 row", "2,000 rows". */
export const many = (value, noun, nouns = `${noun}s`) => `${count(value)} ${Number(value) === 1 ? noun : nouns}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let rest = Number(value);
  let unit = 0;
  while (rest >= 1024 && unit < UNITS.length - 1) { rest /= 1024; unit += 1; }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** A moment in UTC: "2026-11-22 08:15:00". Takes milliseconds or a text that Date reads. */
export function moment(value) {
  if (value === null || value === undefined || value === "") return "–";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** The milliseconds of a moment that is a number or a text; null for others. */
export function millis(value) {
  if (value === null || value === undefined || value === "") return null;
  const ms = new Date(value).getTime();
  return Number.isNaN(ms) ? null : ms;
}

/** A name for SQL in quotes, which also makes a name of a word of SQL. */
export const inQuotes = (name) => `"${name.replaceAll('"', '""')}"`;

/** A name for SQL that people read, quoted only if necessary. */
export function quoted(name) {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : inQuotes(name);
}
