// Uploads a CSV or TSV file to a table, with progress. The gateway checks every row and writes all rows or none.

import * as api from "../api.js";
import { disable, fill, h, labelled } from "../dom.js";
import { brokenRows, failure } from "../failure.js";
import { bytes, many } from "../format.js";
import { Latest } from "../latest.js";
import { toTable } from "../route.js";
import { progress } from "./jobs.js";

const EVERY_MS = 500;

export class UploadView {
  #latest = new Latest();
  #chosen = "";

  constructor(section, { catalogue }) {
    this.catalogue = catalogue;
    this.table = h("select", { id: "upload-table", required: true, on: { change: (event) => { this.#chosen = event.target.value; } } });
    this.file = h("input", { type: "file", id: "upload-file", accept: ".csv,.tsv,.txt,text/csv,text/tab-separated-values", required: true, on: { change: () => this.#name() } });
    this.form = h("select", { id: "upload-form" }, h("option", { value: "csv" }, "CSV, commas"), h("option", { value: "tsv" }, "TSV, tabs"));
    this.drop = h("label", { class: "drop", for: "upload-file" }, h("strong", {}, "Choose a file"), h("span", { class: "hint" }, "or drop one here. The first line must name the columns."));
    this.send = h("button", { type: "submit", class: "primary", id: "upload-send" }, "Upload");
    this.stop = h("button", { type: "button", id: "upload-stop", hidden: true, on: { click: () => this.#cancel() } }, "Cancel");
    this.state = h("div", { class: "upload-state", "aria-live": "polite" });
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Upload")),
      h("p", { class: "hint" }, "Every row is checked against the table's columns before anything is written: one bad row, and the table stays unchanged."),
      h("form", { class: "upload card", on: { submit: (event) => { event.preventDefault(); this.#upload(); } } },
        h("div", { class: "row" }, labelled("Table", this.table), labelled("Form", this.form)), h("div", { class: "file" }, this.file, this.drop), h("div", { class: "row" }, this.send, this.stop)), this.state);
    for (const kind of ["dragenter", "dragover"]) this.drop.addEventListener(kind, (event) => { event.preventDefault(); this.drop.classList.add("over"); });
    for (const kind of ["dragleave", "drop"]) this.drop.addEventListener(kind, () => this.drop.classList.remove("over"));
    this.drop.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files.length) { this.file.files = event.dataTransfer.files; this.#name(); } });
    catalogue.addEventListener("change", () => this.#tables());
  }

  show({ options }) {
    document.title = "Upload · Blockstore";
    if (options.table) this.#chosen = options.table;
    this.#tables();
  }

  #tables() {
    const names = this.catalogue.tables.map(({ name }) => name);
    const have = [...this.table.options].map(({ value }) => value);
    if (have.join("\n") !== names.join("\n")) fill(this.table, names.map((name) => h("option", { value: name }, name)));
    if (names.includes(this.#chosen)) this.table.value = this.#chosen;
  }

  #name() {
    const file = this.file.files[0];
    fill(this.drop, h("strong", {}, file ? file.name : "Choose a file"), h("span", { class: "hint" }, file ? bytes(file.size) : "or drop one here. The first line must name the columns."));
    if (file) this.form.value = /\.tsv$/i.test(file.name) ? "tsv" : "csv";
  }

  async #upload() {
    const file = this.file.files[0];
    const name = this.table.value;
    if (!file || !name) return;
    const run = this.#latest.begin();
    this.#busy(true);
    this.#say("Sending", { share: 0, text: `of ${bytes(file.size)}` });
    try {
      const sending = api.upload(name, file, { form: this.form.value, onProgress: (sent, total) => { if (run.isCurrent()) this.#say("Sending", { share: total ? sent / total : null, text: bytes(sent) }); } });
      run.signal.addEventListener("abort", sending.abort);
      let job = await sending.promise;
      run.job = job.id;
      while (run.isCurrent() && !job.over) {
        this.#say("Checking and writing", job.progress);
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
        if (run.isCurrent()) job = await api.job(job.id, run.signal);
      }
      if (run.isCurrent()) this.#ended(job, name);
    } catch (error) {
      if (run.isCurrent()) fill(this.state, failure(error));
    }
    if (run.isCurrent()) { this.#latest.end(run); this.#busy(false); }
  }

  #ended(job, name) {
    if (job.ok) {
      fill(this.state, h("div", { class: "success" }, h("p", {}, h("strong", {}, job.rows === null ? "Uploaded." : `${many(job.rows, "row")} uploaded.`)), h("p", {}, h("a", { href: toTable(name, "history") }, `See ${name}`))));
      this.catalogue.refresh();
    } else if (job.error) {
      fill(this.state, h("div", { class: "failure", role: "alert" }, h("p", { class: "failure-title" }, "Nothing was written"), h("pre", { class: "failure-text" }, job.error.message), job.error.rows.length ? brokenRows(job.error.rows) : null));
    } else {
      fill(this.state, h("p", {}, `The upload is ${job.state}, without a message.`));
    }
  }

  async #cancel() {
    const id = this.#latest.current?.job;
    this.#latest.cancel();
    this.#busy(false);
    fill(this.state, h("p", {}, "Cancelled."));
    if (!id) return;
    try { await api.cancelJob(id); } catch (error) { fill(this.state, failure(error)); }
  }

  #busy(busy) {
    const isStopping = document.activeElement === this.stop;
    disable(this.send, busy);
    this.stop.hidden = !busy;
    if (isStopping) this.send.focus();
  }

  #say(word, how) {
    fill(this.state, h("p", {}, word), progress(how));
  }
}
