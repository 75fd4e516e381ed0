// The dialog that creates a table: its name, its columns, and what identifies its rows.

import * as api from "../api.js";
import { disable, fill, h, labelled } from "../dom.js";
import { failure } from "../failure.js";
import { toTable } from "../route.js";
import { ColumnList } from "./column_list.js";
import { button, openDialog } from "./dialogs.js";
import { Once } from "./once.js";

export function openNewTable({ onCreated }) {
  const nameError = h("p", { class: "field-error", id: "table-name-error", role: "alert" });
  const keyError = h("p", { class: "field-error", role: "alert" });
  const name = h("input", { type: "text", id: "table-name", autocomplete: "off", autocapitalize: "off", spellcheck: "false", "aria-describedby": "table-name-error" });
  const keys = h("div", { class: "row key-columns", hidden: true, role: "group", "aria-label": "Key columns" });
  const chosen = new Set();
  const columns = new ColumnList({ onChange: drawKeys });
  const identity = [["row_ids", "Row ids", "each row gets a number when it is inserted, and can be changed"], ["key", "A key", "some columns identify a row, and are never null"], ["none", "Nothing", "rows are only added, as in a log"]];
  const choices = identity.map(([value, word, text]) => h("label", { class: "check" }, h("input", { type: "radio", name: "identity", value, checked: value === "row_ids", on: { change: drawKeys } }), h("span", {}, h("strong", {}, word), ` – ${text}`)));
  const kind = () => choices.map((label) => label.querySelector("input")).find(({ checked }) => checked).value;
  const once = new Once();

  function drawKeys() {
    const isKey = kind() === "key";
    keys.hidden = !isKey;
    if (isKey) fill(keys, columns.forms.map((form) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.has(form), on: { change: (event) => { if (event.target.checked) chosen.add(form); else chosen.delete(form); } } }), form.name.value.trim() || "(no name)")));
  }

  async function create() {
    fill(nameError);
    fill(keyError);
    dialog.say();
    if (!columns.check()) return;
    const key = kind() === "key" ? columns.forms.filter((form) => chosen.has(form)).map((form) => form.name.value.trim()) : [];
    if (!name.value.trim()) { fill(nameError, "give the table a name"); name.focus(); return; }
    if (!columns.forms.length) { dialog.say(h("p", { class: "field-error" }, "a table needs at least one column")); return; }
    if (kind() === "key" && !key.length) { fill(keyError, "choose at least one column"); return; }
    const body = { name: name.value.trim(), columns: columns.forms.map((form) => form.body), row_ids: kind() === "row_ids", key };
    disable(send, true);
    try {
      await api.createTable(body, once.keyFor(JSON.stringify(body)));
      dialog.close();
      onCreated();
      location.hash = toTable(body.name, "rows");
    } catch (error) {
      once.ended(error);
      disable(send, false);
      if (/already a table|the table's name|is for some tables/.test(error.message)) { fill(nameError, error.message); name.focus(); } else if (/^the key /.test(error.message)) fill(keyError, error.message);
      else if (!columns.say(error.message)) dialog.say(failure(error));
    }
  }

  const send = button("Create table", create, "primary");
  const dialog = openDialog({
    title: "New table", kind: "wide",
    body: [labelled("Name", name), nameError, h("h3", {}, "Columns"), columns.element, h("h3", {}, "What identifies a row"),
      h("div", { class: "identity", role: "radiogroup", "aria-label": "What identifies a row" }, choices.slice(0, 2), keys, keyError, choices[2])],
    buttons: (close) => [send, button("Cancel", close)],
  });
  columns.element.addEventListener("input", (event) => { if (event.target.dataset.part === "name") drawKeys(); });
  columns.add();
  name.focus();
}
