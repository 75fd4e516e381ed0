// The dialogs that alter a table and drop it. An alter is one version: columns added, renamed, dropped, put in order, and rules.

import * as api from "../api.js";
import { announce, disable, fill, h, labelled } from "../dom.js";
import { failure } from "../failure.js";
import { ColumnList } from "./column_list.js";
import { button, openDialog } from "./dialogs.js";
import { Once } from "./once.js";

/** `onDone(version)` is called when the table is altered. */
export function openAlter({ detail, onDone }) {
  const columns = new ColumnList();
  const fixed = new Set([detail.time_column, ...detail.sort_by, ...(detail.key ?? [])]);
  columns.mayBeRequired = false;
  for (const column of detail.columns) columns.add({ column, isFixed: fixed.has(column.name), mayBeRequired: true });
  const message = h("input", { type: "text", maxlength: 1000, autocomplete: "off" });
  const once = new Once();

  async function alter() {
    dialog.say();
    if (!columns.check()) return;
    const body = alterationOf(detail, columns.forms);
    if (!Object.keys(body).length) { dialog.say(h("p", { class: "field-error" }, "Nothing is changed yet.")); return; }
    if (message.value.trim()) body.message = message.value.trim();
    disable(send, true);
    try {
      const job = await api.alterTable(detail.name, body, once.keyFor(JSON.stringify(body)));
      dialog.close();
      announce("Table altered");
      onDone(job.version);
    } catch (error) {
      once.ended(error);
      disable(send, false);
      if (!columns.say(error.message)) dialog.say(failure(error));
    }
  }

  const send = button("Alter table", alter, "primary");
  const dialog = openDialog({
    title: `Alter ${detail.name}`, kind: "wide",
    body: [h("p", { class: "hint" }, "No stored row is rewritten. A new rule reads the table: rows that break it refuse the alter."), columns.element, labelled("Message for the history", message, { class: "field full" })],
    buttons: (close) => [send, button("Cancel", close)],
  });
}

/** What the forms change, as the gateway takes it; {} if nothing. */
export function alterationOf(detail, forms) {
  const body = {};
  const kept = forms.filter((form) => form.column !== null && !form.isDropped);
  const added = forms.filter((form) => form.column === null);
  const dropped = forms.filter((form) => form.isDropped).map((form) => form.column.name);
  const rename = Object.fromEntries(kept.filter((form) => form.wantedName !== form.column.name).map((form) => [form.column.name, form.wantedName]));
  const rules = Object.fromEntries(kept.map((form) => [form.column.name, form.changedRules]).filter(([, changes]) => Object.keys(changes).length));
  if (added.length) body.add = added.map((form) => form.body);
  if (dropped.length) body.drop = dropped;
  if (Object.keys(rename).length) body.rename = rename;
  if (Object.keys(rules).length) body.columns = rules;
  const order = forms.filter((form) => !form.isDropped);
  const untouched = [...detail.columns.flatMap(({ name }) => kept.filter((form) => form.column.name === name)), ...added];
  if (order.some((form, place) => form !== untouched[place])) body.reorder = order.map((form) => form.wantedName);
  return body;
}

/** The name must be typed. `onDone()` is called when the table is dropped. */
export function openDrop({ detail, onDone }) {
  const typed = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", id: "drop-name", on: { input: () => { send.disabled = typed.value !== detail.name; }, keydown: (event) => { if (event.key === "Enter" && !send.disabled) drop(); } } });
  const once = new Once();

  async function drop() {
    disable(send, true);
    try {
      await api.dropTable(detail.name, once.keyFor("drop"));
      dialog.close();
      onDone();
    } catch (error) {
      once.ended(error);
      disable(send, false);
      dialog.say(failure(error));
    }
  }

  const send = button("Drop table", drop, "danger");
  send.disabled = true;
  const dialog = openDialog({
    title: `Drop ${detail.name}`,
    body: [h("p", {}, "The table disappears for everyone, with its rows. It can be brought back until its files are removed."), labelled(`Type ${detail.name} to confirm`, typed, { class: "field full" })],
    buttons: (close) => [send, button("Cancel", close)],
  });
  typed.focus();
}

/** What is shown after a drop, with the way back. `onDone()` is called when the table is there again. */
export function droppedNotice({ name, onDone, onClose }) {
  const said = h("div", {});
  const once = new Once();
  const undo = button("Bring it back", async () => {
    disable(undo, true);
    try {
      await api.undropTable(name, once.keyFor("undrop"));
      onDone();
    } catch (error) {
      once.ended(error);
      disable(undo, false);
      fill(said, failure(error));
    }
  });
  return h("div", { class: "dropped-notice", role: "status" }, h("div", { class: "row" }, h("p", {}, "Table ", h("strong", {}, name), " was dropped."), undo, button("Close", onClose, "quiet")), said);
}
