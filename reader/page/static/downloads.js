// All rows of a query as a file, in any form; or as a job, whose result stays on the gateway.

import * as api from "./api.js";
import { announce, fill, h } from "./dom.js";
import { fileName } from "./file_names.js";
import { bytes } from "./format.js";
import { menu } from "./menu.js";

export function downloads({ question, onBegin, onError }) {
  const summary = h("summary", { id: "download" }, "Download");
  const started = h("p", { class: "hint", role: "status" });
  const forms = Object.entries(api.FORMS).map(([form, { label }]) =>
    h("button", { type: "button", "data-form": form, on: { click: () => take(form) } }, label));
  const job = h("button", { type: "button", id: "as-job", on: { click: asJob } }, "Run as a job");
  const element = menu({ summary, card: [h("p", { class: "hint" }, "All rows, without the page's limit."), h("div", { class: "choices" }, forms), h("hr"), job, started] });

  async function take(form) {
    const { sql, travel } = question();
    if (!sql.trim()) return;
    onBegin();
    fill(started, "Waiting for the gateway…");
    try {
      const response = await api.query(sql, { travel, form });
      await save(response, fileName(sql, Object.keys(api.versionsOf(response)), api.FORMS[form].suffix), (size) => fill(started, `${bytes(size)} received`));
      fill(started, "Saved.");
      announce("Download complete");
    } catch (error) {
      fill(started);
      element.open = false;
      onError(error);
    }
  }

  async function asJob() {
    const { sql, travel } = question();
    if (!sql.trim()) return;
    onBegin();
    try {
      await api.queryJob(sql, travel, "parquet");
      element.open = false;
      location.hash = "#/jobs";
    } catch (error) {
      element.open = false;
      onError(error);
    }
  }

  return element;
}

/** Save the body of a response as a file, only when it is complete. */
export async function save(response, name, onProgress) {
  const reader = response.body.getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    onProgress(size);
  }
  give(new Blob(parts, { type: response.headers.get("content-type") ?? "" }), name);
}

/** Save what the page has made as a file. */
export function give(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
