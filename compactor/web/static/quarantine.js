// Quarantined blocks: what is wrong with each, the command that only looks, and the one that repairs it.

import { fill, h } from "../static/shared/elements.js";
import { ago, counted } from "../static/shared/format.js";
import { command } from "./inspector.js";
import { table } from "./tables.js";

const find = (id) => document.getElementById(id);

export function showQuarantine(status, show) {
  const rows = status.tables.flatMap((one) => one.quarantined.map((block) => ({ ...block, table: one.name })));
  const total = status.tables.reduce((sum, one) => sum + one.quarantined_count, 0);
  find("quarantine-note").textContent = total ? `${counted(total, "block")} kept from merges; all others are merged` : "";
  const shape = JSON.stringify(rows.map((one) => [one.table, one.ulid, one.reason, one.look, one.command]));
  const place = find("quarantine-body");
  if (place.dataset.shape === shape) return; // leave a selection of text alone
  place.dataset.shape = shape;
  if (!rows.length) {
    fill(place, h("p", { class: "empty" }, "No block is quarantined."));
    return;
  }
  const columns = [
    { name: "Block", cell: (one) => [h("button", { type: "button", class: "link mono small", "data-key": `bad ${one.table} ${one.ulid}`, title: "Show on the timeline", onclick: () => show(one.table, one.ulid) }, one.ulid), h("div", { class: "small muted" }, `${one.table}, ${ago(one.since, status.now)}`)] },
    { name: "What is wrong", wide: true, cell: (one) => h("span", {}, one.reason) },
    { name: "What to do", wide: true, cell: (one) => [one.look, one.command].filter(Boolean).map(command) },
  ];
  fill(place, table("Quarantined blocks", columns, rows));
}
