// Rows that others have changed since they were read: as they were read, as they are now, and what is to be saved, side by side.
// Rules: nothing is overwritten that was not shown. What is chosen is sent with the versions that are shown here.

import * as api from "../api.js";
import { h } from "../dom.js";
import { many } from "../format.js";
import { isSame, labelOf, textOf } from "./column_types.js";
import { button, openDialog } from "./dialogs.js";

const AT_ONCE = 6;
const LOOKS = 5;
const WAIT_MS = 500;

/** The touched rows that have another version now: [{row, now: {version, isDeleted, cells}}], after `error` refused their changes. */
export async function conflictsOf(detail, changes, error) {
  const { rows: reported = [], version: minVersion = null } = error.detail.detail ?? {};
  const isOfNewKeys = reported.length > 0 && reported.every(({ expected }) => expected === null);
  // A gateway that has just refused a change may read the version that it met a moment later.
  for (let look = 1; ; look += 1) {
    const found = await differing(detail, changes, minVersion);
    if (found.length || isOfNewKeys || look === LOOKS) return found;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
}

async function differing(detail, changes, minVersion) {
  const waiting = changes.touched;
  const found = [];
  const take = async () => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
      const now = await nowOf(detail, changes, row, minVersion);
      if (now.isDeleted || now.version !== changes.versionOf(row)) found.push({ row, now });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, take));
  return found.sort((one, other) => one.row - other.row);
}

async function nowOf(detail, changes, row, minVersion) {
  try {
    const [newest] = await api.rowHistory(detail.name, changes.nameOf(row), { minVersion });
    const cells = Object.fromEntries(changes.columns.map(({ name, column }) => [name, column ? textOf(newest[name], column) : null]));
    return { version: Number(newest._version), isDeleted: Boolean(newest._deleted), cells };
  } catch (error) {
    if (error.status === 404) return { version: null, isDeleted: true, cells: {} };
    throw error;
  }
}

/** Show them, and apply what is chosen to the changes; `onChoose()` is called then. */
export function openConflicts({ changes, conflicts, onChoose }) {
  const cards = conflicts.map((one) => new Conflict(changes, one));
  const all = (which) => () => { for (const card of cards) card.choose(which); };
  openDialog({
    title: `${many(conflicts.length, "row")} changed meanwhile`, kind: "wide conflicts",
    body: [h("p", {}, "Others changed rows after you read them. Nothing was saved. Choose what counts; the changes of your other rows are kept."),
      conflicts.length > 1 || cards[0].choices > 1 ? h("div", { class: "row" }, button("All mine", all("mine")), button("All theirs", all("now"))) : null,
      cards.map((card) => card.element)],
    buttons: (close) => [button("Save what is chosen", () => { for (const card of cards) card.apply(); close(); onChoose(); }, "primary"), button("Back to the rows", close)],
  });
}

class Conflict {
  #choices = []; // {key: cell name or "row", mine, now: radio inputs}

  constructor(changes, { row, now }) {
    Object.assign(this, { changes, row, now });
    this.group = `conflict-${row}`;
    const title = `Row ${changes.detail.row_ids ? `id ${changes.nameOf(row)}` : JSON.parse(changes.nameOf(row)).join(", ")}`;
    const state = now.isDeleted ? "deleted by others" : `version ${changes.versionOf(row)} was read, version ${now.version} is there now`;
    this.element = h("section", { class: "conflict", "aria-label": title }, h("h3", {}, title, h("span", { class: "hint" }, ` ${state}`)), this.#body());
  }

  get choices() { return this.#choices.length; }

  choose(which) { for (const choice of this.#choices) choice[which].checked = true; }

  /** Change the pending changes as was chosen. */
  apply() {
    const { changes, row, now } = this;
    const isMine = (key) => this.#choices.find((choice) => choice.key === key)?.mine.checked;
    if (now.isDeleted) {
      if (isMine("row")) changes.add(Object.fromEntries(changes.columns.filter(({ name, column }) => column && changes.canEdit(changes.rows, name)).map(({ name }) => [name, changes.value(row, name)])));
      changes.forget(row);
      return;
    }
    if (changes.isDeleted(row)) {
      if (!isMine("row")) changes.forget(row);
    } else {
      for (const name of changes.cellsOf(row)) if (!isMine(name)) changes.unset(row, name);
    }
    changes.rebase(row, now);
  }

  #body() {
    const { changes, row, now } = this;
    if (now.isDeleted) {
      if (changes.isDeleted(row)) return h("p", {}, "You were going to delete it too: nothing is left to do.");
      return [this.#table(changes.columns.filter(({ column }) => column), false), this.#whole("Leave it deleted", "Add it again, as a new row with your values")];
    }
    const differs = changes.columns.filter(({ name, column }) => column && (changes.isCellChanged(row, name) || !isSame(changes.was(row, name), now.cells[name], column)));
    if (changes.isDeleted(row)) return [this.#table(differs, false), this.#whole("Keep the row as it is now", "Delete it all the same")];
    return this.#table(differs, true);
  }

  #whole(now, mine) {
    const choice = { key: "row", now: this.#radio("row", true, now), mine: this.#radio("row", false, mine) };
    this.#choices.push(choice);
    return h("div", { class: "whole", role: "radiogroup", "aria-label": "What counts" }, [[choice.now, now], [choice.mine, mine]].map(([radio, text]) => h("label", { class: "check" }, radio, text)));
  }

  #table(columns, isByCell) {
    const { changes, row, now } = this;
    const cells = (column) => {
      const { name } = column;
      const mine = changes.isDeleted(row) ? undefined : changes.value(row, name);
      const there = now.cells[name] ?? (now.isDeleted ? undefined : null);
      if (!isByCell || !changes.isCellChanged(row, name)) return [h("td", { "data-label": "Now" }, shown(there, column.column)), h("td", { "data-label": "Yours" }, isByCell ? h("span", { class: "dim" }, "unchanged") : shown(mine, column.column))];
      const choice = { key: name, now: this.#radio(name, true, `${name} as it is now`), mine: this.#radio(name, false, `${name} as yours`) };
      const isTheirs = !isSame(changes.was(row, name), now.cells[name], column.column);
      choice.now.checked = isTheirs;
      choice.mine.checked = !isTheirs;
      this.#choices.push(choice);
      return [choice.now, choice.mine].map((radio, place) => h("td", { class: "pick", "data-label": place ? "Yours" : "Now" }, h("label", { class: "check" }, radio, shown(place ? mine : there, column.column))));
    };
    return h("div", { class: "scroll" }, h("table", { class: "plain sides-table" }, h("thead", {}, h("tr", {}, ["Column", "As you read it", "Now", "Yours"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, columns.map((column) => h("tr", { "data-cell": column.name }, h("th", { scope: "row" }, column.name), h("td", { "data-label": "As you read it" }, shown(changes.was(row, column.name), column.column)), cells(column))))));
  }

  #radio(key, checked, label) {
    return h("input", { type: "radio", name: `${this.group}-${key}`, checked, "aria-label": label });
  }
}

/** A value in a table; null is marked, and so is an empty text. */
export function shown(text, column = null) {
  if (text === undefined) return "–";
  if (text === null) return h("span", { class: "dim" }, "null");
  return text === "" ? h("span", { class: "dim" }, "empty text") : h("span", { class: "value" }, labelOf(text, column));
}
