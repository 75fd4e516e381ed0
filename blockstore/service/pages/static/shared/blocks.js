// The blocks of a table as columns, and their positions on the timeline; no drawing here.

export const UNKNOWN_LEVEL = 0;
const MOST_LANES = 12;

/** The timeline's JSON with absolute times; see columns.py. */
export function decode(answer) {
  const held = answer.blocks;
  const size = answer.count;
  const low = new Float64Array(size);
  const high = new Float64Array(size);
  for (let i = 0; i < size; i += 1) {
    low[i] = answer.origin + held.min[i];
    high[i] = low[i] + held.length[i];
  }
  const noCompact = new Uint8Array(size);
  for (const place of held.no_compact) noCompact[place] = 1;
  return {
    ...answer, size, low, high, noCompact,
    ulid: held.ulid, stream: held.stream, level: held.level, rows: held.rows, bytes: held.bytes, sources: held.sources,
    state: held.state, reason: held.reason, addedIn: held.version,
    place: new Map(held.ulid.map((ulid, i) => [ulid, i])),
  };
}

/** One block as an object. */
export function blockAt(data, i) {
  return {
    ulid: data.ulid[i], stream: data.streams[data.stream[i]], level: data.level[i], low: data.low[i], high: data.high[i],
    rows: data.rows[i], bytes: data.bytes[i], sources: data.sources?.[i], state: data.states[data.state[i]],
    reason: data.reasons[data.reason[i]], noCompact: data.noCompact[i] === 1, version: data.addedIn[i] || null,
  };
}

/** The blocks that pass a filter: `states` to hide, `labels` to show, `text` within the ULID. */
export function matching(data, { hidden = new Set(), labels = {}, text = "" } = {}) {
  const hiddenStates = new Set(data.states.map((name, i) => (hidden.has(name) ? i : -1)));
  const wanted = Object.entries(labels).filter(([, value]) => value !== "");
  const streams = data.streams.map((stream) => wanted.every(([name, value]) => stream.labels[name] === value));
  const part = text.trim().toUpperCase();
  const found = [];
  for (let i = 0; i < data.size; i += 1) {
    if (hiddenStates.has(data.state[i]) || !streams[data.stream[i]]) continue;
    if (part && !data.ulid[i].includes(part)) continue;
    found.push(i);
  }
  return found;
}

/** Rows of the timeline, top to bottom: one per stream and level, each with as many lanes as blocks overlap. */
export function rowsOf(data, places, streamName) {
  const rows = new Map();
  for (const i of places) {
    const key = data.stream[i] * 1000 + data.level[i];
    if (!rows.has(key)) rows.set(key, { stream: data.stream[i], level: data.level[i], places: [] });
    rows.get(key).places.push(i);
  }
  const names = data.streams.map(streamName);
  const ordered = [...rows.values()].sort(
    (one, other) => names[one.stream].localeCompare(names[other.stream]) || one.stream - other.stream || one.level - other.level,
  );
  for (const row of ordered) pack(data, row);
  return ordered;
}

/** Put each block of a row, by time, into the first free lane; if none is free they share the last. */
function pack(data, row) {
  row.places.sort((i, j) => data.low[i] - data.low[j] || data.high[i] - data.high[j] || (data.ulid[i] < data.ulid[j] ? -1 : 1));
  const ends = [];
  row.lane = new Uint8Array(row.places.length);
  row.places.forEach((i, at) => {
    let lane = ends.findIndex((end) => end <= data.low[i]);
    if (lane < 0) lane = ends.length < MOST_LANES ? ends.length : soonest(ends);
    ends[lane] = Math.max(ends[lane] ?? -Infinity, data.high[i]);
    row.lane[at] = lane;
  });
  row.lanes = Math.max(1, ends.length);
}

function soonest(ends) {
  return ends.indexOf(Math.min(...ends));
}

/** The first and the last time of some blocks, with a margin. */
export function rangeOf(data, places) {
  let [low, high] = [Infinity, -Infinity];
  for (const i of places) {
    if (data.low[i] < low) low = data.low[i];
    if (data.high[i] > high) high = data.high[i];
  }
  if (low > high) return [data.now - 3_600_000, data.now];
  const margin = Math.max((high - low) * 0.02, 500);
  return [low - margin, high + margin];
}
