// The page: fetches the status every few seconds and the timeline of one table less often, and passes both to the parts.

import { Chosen } from "./chosen.js";
import { Jobs } from "./jobs.js";
import { showLoops } from "./loops.js";
import { isTended, showAlerts, showFigures, showHead, showTables } from "./overview.js";
import { showQuarantine } from "./quarantine.js";

const STATUS_MS = 2_000;
const TIMELINE_MS = 12_000;

const state = { status: null, table: null, failed: null, unknown: null, filter: "", page: 0 };
const address = new URLSearchParams(location.hash.slice(1));
const chosen = new Chosen({ onblock: (ulid) => remember({ block: ulid }) });
const jobs = new Jobs({ onshow: (table, range) => choose(table, { range }) });

function remember(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value) address.set(key, value);
    else address.delete(key);
  }
  history.replaceState(null, "", `#${address}`);
}

async function ask(path, patience) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(patience) });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(body.error || body.detail || `${path} responded with ${answer.status}`);
  return body;
}

/** Choose a table: its blocks, and from now on the jobs that are "only of this table". */
async function choose(name, { range = null, block = null } = {}) {
  const other = name !== state.table;
  state.table = name;
  state.unknown = null;
  remember({ table: name, ...(other ? { block } : {}) });
  render();
  if (other) await timeline({ block });
  if (range) {
    chosen.zoomTo(range);
    document.getElementById("table").scrollIntoView({ block: "start" });
  }
}

function render() {
  if (!state.status) return;
  const status = { ...state.status, tables: state.status.tables.map((one) => chosen.asSeen(one)) };
  const table = status.tables.find((one) => one.name === state.table) ?? null;
  showHead(status, state.failed);
  showAlerts(status, state, choose);
  showFigures(status);
  showTables(status, state.table, choose);
  chosen.showTable(table);
  jobs.show(status, state.table);
  showQuarantine(status, show);
  showLoops(status, table);
}

/** Show one block of some table on the timeline. */
async function show(name, ulid) {
  if (name === state.table) chosen.select(ulid);
  else await choose(name, { block: ulid });
  document.getElementById("table").scrollIntoView({ block: "start" });
}

async function refresh() {
  try {
    state.status = await ask(`/api/status${state.filter || state.page ? `?${new URLSearchParams({ filter: state.filter, page: state.page })}` : ""}`, 15_000);
    state.failed = null;
    const names = state.status.tables.map((table) => table.name);
    if (!names.includes(state.table) && (names.length || !state.filter)) {
      state.unknown = address.get("table") && !names.includes(address.get("table")) ? address.get("table") : null;
      const wanted = names.includes(address.get("table")) ? address.get("table") : (state.status.tables.find(isTended)?.name ?? names[0] ?? null);
      state.table = wanted;
      if (wanted) timeline({ block: wanted === address.get("table") ? address.get("block") : null });
    }
  } catch (error) {
    state.failed = String(error.message ?? error);
    if (!state.status) showHead(null, state.failed);
  }
  render();
  if (state.status) document.documentElement.dataset.ready = "true"; // nothing was shown before, so nothing can jump
}

async function timeline({ block = null } = {}) {
  const name = state.table;
  if (!name || !state.status.tables.some((one) => one.name === name && isTended(one))) return;
  try {
    const answer = await ask(`/api/timeline?table=${encodeURIComponent(name)}`, 300_000);
    if (name === state.table) chosen.showBlocks(answer, block);
  } catch (error) {
    if (name === state.table) chosen.showFailure(String(error.message ?? error));
  }
  render();
}

/** Repeat, but not while the page is hidden. */
function repeat(work, wait) {
  const turn = async () => {
    if (!document.hidden) await work();
    setTimeout(turn, wait);
  };
  setTimeout(turn, wait);
}

/** Show another page of the tables, or those with another name. */
function turn(changes) {
  Object.assign(state, changes);
  refresh();
}

document.getElementById("tables-search").addEventListener("input", (event) => turn({ filter: event.target.value, page: 0 }));
document.getElementById("tables-before").addEventListener("click", () => turn({ page: Math.max(0, state.page - 1) }));
document.getElementById("tables-next").addEventListener("click", () => turn({ page: state.page + 1 }));
document.addEventListener("visibilitychange", () => document.hidden || refresh());
await refresh();
repeat(refresh, STATUS_MS);
repeat(timeline, TIMELINE_MS);
