// The file in a cell: download it, put another one there, or take it away.
// Rules: a file is uploaded at once, and the row names it when the changes are saved; one that no row names is removed later.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { save } from "../downloads.js";
import { failure } from "../failure.js";
import { bytes } from "../format.js";
import { handleOf, labelOf } from "./column_types.js";
import { button, openDialog } from "./dialogs.js";

/** Offer the download of each saved file where a complete value is shown. */
export function offerDownloads(changes) {
  for (const column of changes.columns) if (column.column?.kind === "file") column.more = (row) => downloadOf(changes, row, column.name);
}

/** Open the dialog of a cell. */
export function openFileCell({ changes, row, name, onLeave }) {
  const { column } = changes.columns.find((one) => one.name === name);
  const state = h("p", { role: "status" });
  const field = h("input", { type: "file", "aria-label": "Another file", on: { change: upload } });

  function take(text) {
    changes.set(row, name, text);
    dialog.close();
  }

  async function upload() {
    const file = field.files[0];
    if (!file) return;
    field.disabled = true;
    dialog.say();
    fill(state, h("span", { class: "spinner", "aria-hidden": "true" }), `Uploading ${file.name}, ${bytes(file.size)}`);
    try {
      const { id, name: own, content_type: type, bytes: size, sha256 } = await api.uploadFile(changes.detail.name, file);
      if (dialog.element.open) take(JSON.stringify({ id, name: own, content_type: type, bytes: size, sha256 }));
    } catch (error) {
      field.disabled = false;
      fill(state);
      dialog.say(failure(error));
    }
  }

  const current = changes.value(row, name) ?? null;
  const dialog = openDialog({
    title: `${name}, a file`, onClose: onLeave,
    body: [h("p", {}, current === null ? "There is no file." : labelOf(current, column)), downloadOf(changes, row, name), h("label", { class: "field full" }, h("span", { class: "label" }, "Put another file here"), field), state],
    buttons: (close) => [current === null ? null : button("Take the file away", () => take(null)), button("Cancel", close)],
  });
}

// A button, where there is a file that was saved.
function downloadOf(changes, row, name) {
  const handle = changes.isAdded(row) || changes.isCellChanged(row, name) ? null : handleOf(changes.was(row, name) ?? "null");
  if (!handle) return null;
  const said = h("span", { class: "hint", role: "status" });
  return h("div", { class: "row" }, button("Download", async () => {
    try {
      const response = await api.fileOf(changes.detail.name, changes.nameOf(row), name, changes.versionOf(row));
      await save(response, handle.name, (size) => fill(said, `${bytes(size)} received`));
      fill(said, "Saved.");
    } catch (error) {
      fill(said, failure(error));
    }
  }), said);
}
