// Jobs: running with their progress, planned with their reasons, finished with their outcomes.

import { fill, h } from "../static/shared/elements.js";
import { ago, bytes, count, counted, duration, span, streamName } from "../static/shared/format.js";
import { scrolling, table } from "./tables.js";

const TABS = ["running", "planned", "finished"];
const OUTCOMES = { committed: "good", uploaded: "good", conflict: "warn", abandoned: "warn", damaged: "bad", failed: "bad" };
const find = (id) => document.getElementById(id);

export class Jobs {
  constructor({ onshow }) {
    this.onshow = onshow;
    this.tab = "running";
    this.picked = false;
    find("only").addEventListener("change", () => this.render());
  }

  show(status, current) {
    this.status = status;
    this.current = current;
    this.render();
  }

  render() {
    const only = find("only").checked;
    const tables = this.status.tables.filter((one) => !only || one.name === this.current);
    const jobs = (tab) => tables.flatMap((one) => one[tab].map((job) => ({ ...job, table: one.name })));
    const totals = {
      running: jobs("running").length, planned: tables.reduce((sum, one) => sum + one.planned_count, 0), finished: jobs("finished").length,
    };
    if (!this.picked) this.tab = TABS.find((tab) => totals[tab]) ?? "running";
    fill(find("job-tabs"), TABS.map((tab) => this.tabButton(tab, totals[tab])));
    find("job-panel").setAttribute("aria-labelledby", `tab-${this.tab}`);
    const rows = jobs(this.tab);
    if (this.tab === "finished") rows.sort((one, other) => (other.ended ?? 0) - (one.ended ?? 0));
    const empty = { running: "No merge is running.", planned: "No merge is planned.", finished: "No merge has ended since the process started." };
    this.keepScroll(() => fill(find("job-panel"), rows.length ? scrolling(`${this.tab} jobs`, table(`${this.tab} jobs`, this.columns(), rows)) : h("p", { class: "empty" }, empty[this.tab]),
      totals[this.tab] > rows.length ? h("p", { class: "small muted" }, `The first ${count(rows.length)} of ${count(totals[this.tab])}.`) : null));
  }

  keepScroll(change) {
    const before = find("job-panel").querySelector(".scroll")?.scrollTop ?? 0;
    change();
    const after = find("job-panel").querySelector(".scroll");
    if (after) after.scrollTop = before;
  }

  tabButton(tab, total) {
    const selected = tab === this.tab;
    const button = h("button", { type: "button", class: "tab", role: "tab", id: `tab-${tab}`, "data-key": `tab ${tab}`, "aria-selected": String(selected), "aria-controls": "job-panel", tabindex: selected ? "0" : "-1" },
      `${tab[0].toUpperCase()}${tab.slice(1)} (${count(total)})`);
    button.addEventListener("click", () => this.pick(tab));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length];
      this.pick(next);
      find(`tab-${next}`).focus();
    });
    return button;
  }

  pick(tab) {
    this.tab = tab;
    this.picked = true;
    this.render();
  }

  columns() {
    const common = [
      { name: "Table", cell: (job) => h("button", { type: "button", class: "link", "data-key": `job ${job.table} ${job.number} ${job.min} ${job.inputs[0]}`, title: "Show on the timeline", onclick: () => this.onshow(job.table, [job.min, job.max]) }, job.table) },
      { name: "Why", wide: true, cell: (job) => [h("span", {}, job.details || job.reason), h("div", { class: "small muted" }, streamName(job.stream))] },
      { name: "Times", cell: (job) => h("span", { class: "small" }, span(job.min, job.max)) },
      { name: "Inputs", number: true, cell: (job) => h("span", { title: `${job.inputs.join("\n")}${job.input_count > job.inputs.length ? "\n…" : ""}` }, counted(job.input_count, "block")) },
    ];
    const level = { name: "To level", number: true, less: true, cell: (job) => `${job.level}` };
    const size = { name: "Rows, size", number: true, cell: (job) => [h("span", {}, count(job.rows)), h("div", { class: "small muted" }, bytes(job.bytes))] };
    const now = this.status.now;
    return {
      running: [...common, level, size, { name: "Progress", wide: true, cell: (job) => progress(job, now) }],
      planned: [...common, level, size, { name: "Needs", number: true, cell: (job) => [h("span", {}, `${bytes(job.memory)} memory`), h("div", { class: "small muted" }, `${bytes(job.disk)} disk`)] }],
      finished: [
        { name: "Ended", cell: (job) => [h("span", { class: `badge ${OUTCOMES[job.state] ?? ""}` }, job.state), h("div", { class: "small muted" }, ago(job.ended, now))] },
        ...common,
        { name: "Rows, size", number: true, cell: (job) => [h("span", {}, count(job.rows_out)), h("div", { class: "small muted" }, bytes(job.bytes_out))] },
        { name: "Took", number: true, cell: (job) => [h("span", {}, duration(job.seconds * 1000)), job.rows_per_s ? h("div", { class: "small muted" }, `${count(job.rows_per_s)} rows/s`) : null] },
        { name: "Result", wide: true, cell: (job) => result(job) },
      ],
    }[this.tab];
  }
}

function progress(job, now) {
  const share = Math.min(Math.max(job.progress, 0), 1);
  const went = job.started === null ? "" : ` · for ${duration(now - job.started)}`;
  return [
    h("span", {}, `${Math.round(share * 100)} % · merging${went}`), h("progress", { max: "1", value: share, "aria-label": `Progress of the merge in ${job.table}` }),
    job.rows_per_s ? h("div", { class: "small muted" }, `${count(job.rows_per_s)} rows/s`) : null,
  ];
}

function result(job) {
  return [
    job.block ? h("span", { class: "mono small" }, job.block) : null, job.version ? h("div", { class: "small muted" }, `version ${count(job.version)}`) : null,
    job.problem ? h("div", { class: "small row-problem" }, job.problem) : null,
  ];
}
