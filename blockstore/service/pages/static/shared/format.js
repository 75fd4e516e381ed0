// Numbers, sizes, times and durations as text. All times are UTC.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (value) => whole.format(value);

const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumSignificantDigits: 3 });

/** Large numbers with few digits: 2.74bn. */
export const compact = (value) => (value < 100_000 ? count(value) : short.format(value));

export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value) {
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

/** 2026-11-22 07:55:01, with milliseconds only if there are any. */
export function time(ms) {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return String(ms);
  const text = new Date(ms).toISOString();
  return `${text.slice(0, -1).replace("T", " ").replace(/\.000$/, "").replace(/(\.\d+?)0+$/, "$1")}`;
}

/** A time range: in seconds if it is long, and the day only once if both times are of one day. */
export function span(low, high) {
  const cut = high - low > 120_000 ? (ms) => Math.floor(ms / 1000) * 1000 : (ms) => ms;
  const [from, to] = [time(cut(low)), time(cut(high))];
  return from.slice(0, 10) === to.slice(0, 10) ? `${from} – ${to.slice(11)}` : `${from} – ${to}`;
}

export function duration(ms) {
  const s = ms / 1000;
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(Math.round(s % 60))} s`;
  if (s < 86400 * 2) return `${Math.floor(s / 3600)} h ${pad(Math.floor((s % 3600) / 60))} min`;
  return `${(s / 86400).toFixed(1)} d`;
}

const pad = (value) => String(value).padStart(2, "0");

export const ago = (then, now) => (then === null || then === undefined ? "never" : now - then < 1500 ? "just now" : `${duration(now - then)} ago`);

/** Labels and resolution of a stream, in one line. */
export function streamName(stream) {
  const labels = Object.entries(stream.labels).map(([name, value]) => `${name}=${value}`).join(", ");
  const resolution = stream.resolution ? `resolution ${duration(stream.resolution)}` : "";
  return [labels, resolution].filter(Boolean).join(" · ") || "no labels";
}
