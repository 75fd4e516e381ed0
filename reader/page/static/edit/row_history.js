// The versions of a row that are kept, newest first: what each changed, when, and by whom. One can be taken back as a change.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { failure } from "../failure.js";
import { count, many, moment } from "../format.js";
import { Latest } from "../latest.js";
import { isSame, textOf } from "./column_types.js";
import { shown } from "./conflicts.js";
import { button, openDialog } from "./dialogs.js";

const AT_ONCE = 20;

/** Open the history of a row; `row` is its name in addresses. `onRestore(row, cells, isGone)` takes a version back, of a row that may be deleted now; null: it may not. */
export function openRowHistory({ detail, row, minVersion, onRestore }) {
  const latest = new Latest();
  const place = h("div", { class: "versions" });
  const byKey = detail.key?.length ? detail.key.join(", ") : null;
  const name = h("input", { type: "text", id: "history-row", value: byKey ? plainKey(row) : row, autocomplete: "off", inputmode: byKey ? "text" : "numeric" });
  const wanted = () => (byKey ? keyOf(name.value, detail.key.length) : name.value.trim());

  async function show() {
    const asked = wanted();
    if (!asked) { fill(place, h("p", { class: "hint" }, "Enter the row. Rows that were deleted can be found here too.")); return; }
    const run = latest.begin();
    place.setAttribute("aria-busy", "true");
    try {
      const versions = await api.rowHistory(detail.name, asked, { minVersion, signal: run.signal });
      if (run.isCurrent()) draw(asked, versions, AT_ONCE, run);
    } catch (error) {
      if (run.isCurrent()) fill(place, failure(error));
    }
    if (run.isCurrent()) place.removeAttribute("aria-busy");
  }

  function draw(asked, versions, most, run) {
    const items = versions.slice(0, most).map((version, index) => item(asked, version, versions[index + 1] ?? null, index === 0, Boolean(versions[0]._deleted)));
    fill(place, h("ol", { class: "version-list" }, items.map(({ element }) => element)),
      versions.length > most ? button(`${many(versions.length - most, "older version")}`, () => draw(asked, versions, most + AT_ONCE, run)) : null);
    for (const { version, said } of items) tellWhen(version, said, run);
  }

  function item(asked, version, before, isNewest, isRowGone) {
    const number = Number(version._version);
    const said = h("span", { class: "hint" });
    const cells = Object.fromEntries(detail.columns.map((column) => [column.name, textOf(version[column.name], column)]));
    const isGone = Boolean(version._deleted);
    const restore = onRestore && !isGone && !isNewest ? button("Restore", () => { dialog.close(); onRestore(asked, cells, isRowGone); }) : null;
    restore?.setAttribute("aria-label", `Restore version ${number}`);
    return {
      version: number, said,
      element: h("li", { "data-version": number }, h("div", { class: "version-head" }, h("h3", {}, `Version ${count(number)}`), isGone ? h("span", { class: "chip bad" }, "deleted") : null,
        isNewest && !isGone ? h("span", { class: "chip good" }, "current") : null, said, h("span", { class: "grow" }), restore),
      isGone ? null : difference(detail.columns, cells, before && !before._deleted ? before : null)),
    };
  }

  async function tellWhen(version, place, run) {
    try {
      const { entries } = await api.history(detail.name, { before: version + 1, limit: 1, signal: run.signal });
      const entry = entries[0]?.version === version ? entries[0] : null;
      if (entry) fill(place, [`${moment(entry.time)} UTC`, entry.operation, entry.message].filter(Boolean).join(", "));
    } catch { /* a version without its time is still a version */ }
  }

  const dialog = openDialog({
    title: `History of a row of ${detail.name}`, kind: "wide",
    body: [h("form", { class: "row", on: { submit: (event) => { event.preventDefault(); show(); } } },
      h("label", { class: "field" }, h("span", { class: "label" }, byKey ? `Key (${byKey})` : "Row id"), name), h("button", { type: "submit" }, "Show")), place],
    buttons: (close) => [button("Close", close)], onClose: () => latest.cancel(),
  });
  show();
}

// What a version changed; the values of all columns where there is none before it.
function difference(columns, cells, before) {
  const rows = columns.map((column) => ({ column, now: cells[column.name], was: before ? textOf(before[column.name], column) : undefined }))
    .filter(({ column, now, was }) => was === undefined ? now !== null : !isSame(now, was, column));
  if (!rows.length) return h("p", { class: "hint" }, before ? "The same values." : "All values are null.");
  return h("table", { class: "plain" }, h("thead", { class: "unseen" }, h("tr", {}, (before ? ["Column", "Before", "After"] : ["Column", "Value"]).map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map(({ column, now, was }) => h("tr", {}, h("th", { scope: "row" }, column.name), before ? h("td", { class: "was" }, shown(was, column)) : null, h("td", { class: "new" }, shown(now, column))))));
}

// A key of one column is shown as its text, one of several as a JSON array.
function plainKey(row) {
  const parts = row ? JSON.parse(row) : [];
  return parts.length === 1 ? parts[0] : row;
}

function keyOf(text, size) {
  if (size === 1) return text && JSON.stringify([text]);
  try {
    return JSON.stringify(JSON.parse(text).map((part) => (typeof part === "string" ? part : JSON.stringify(part))));
  } catch {
    return text;
  }
}
