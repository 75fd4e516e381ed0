// Jobs: their state, progress, result or error. Polled every second while a job runs and the page is visible.
// Rule: a poll asks for the newest page, and for older jobs that are shown and run. Older pages come when they are asked for.

import * as api from "../api.js";
import { announce, disable, fill, h } from "../dom.js";
import { save } from "../downloads.js";
import { brokenRows, failure } from "../failure.js";
import { many, moment } from "../format.js";

const SOON_MS = 1_000;
const LATER_MS = 10_000;
const PAGE = 50;

export class JobsView {
  #timer = null;
  #shown = false;
  #asking = false;
  #states = new Map();
  #older = []; // of the pages after the newest
  #next = null; // where the page after those begins; null: there is none

  constructor(section) {
    this.newest = [];
    this.list = h("div", { class: "jobs", role: "list", "aria-label": "Jobs" }, Array.from({ length: 2 }, () => h("div", { class: "card waiting", "aria-hidden": "true" })));
    this.trouble = h("div", {});
    this.more = h("button", { type: "button", id: "older-jobs", hidden: true, on: { click: () => this.#more() } }, "Show older jobs");
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Jobs")),
      h("p", { class: "hint" }, "Long queries and uploads. Their records are in the bucket: every gateway shows them, and takes over those of a gateway that died."), this.trouble, this.list, h("p", {}, this.more));
  }

  show() { document.title = "Jobs · Blockstore"; this.#shown = true; return this.refresh(); }
  hide() { this.#shown = false; clearTimeout(this.#timer); }

  async refresh() {
    if (this.#asking) return;
    this.#asking = true;
    clearTimeout(this.#timer);
    let wait = LATER_MS;
    try {
      const { jobs: newest, next } = await api.jobs({ limit: PAGE });
      if (!this.#older.length) this.#next = next;
      await this.#keep(newest);
      const jobs = [...newest, ...this.#older];
      fill(this.trouble);
      this.#draw(jobs);
      if (jobs.some((job) => !job.over)) wait = SOON_MS;
    } catch (error) {
      fill(this.trouble, failure(error, () => this.refresh()));
      this.list.querySelectorAll(".waiting").forEach((element) => element.remove());
    }
    this.#asking = false;
    if (this.#shown) this.#timer = setTimeout(() => this.refresh(), wait);
  }

  // What the newest page no longer has stays in sight once older jobs are shown.
  async #keep(newest) {
    const first = new Set(newest.map((job) => job.id));
    const fallen = this.#older.length ? this.newest.filter((job) => !first.has(job.id)) : [];
    this.newest = newest;
    this.#older = [...fallen, ...this.#older.filter((job) => !first.has(job.id))];
    const open = this.#older.filter((job) => !job.over);
    const now = new Map((await Promise.all(open.map((job) => api.job(job.id).catch(() => job)))).map((job) => [job.id, job]));
    this.#older = this.#older.map((job) => now.get(job.id) ?? job); // a page may have come meanwhile
  }

  async #more() {
    disable(this.more, true);
    try {
      const { jobs, next } = await api.jobs({ limit: PAGE, before: this.#next });
      const known = new Set([...this.newest, ...this.#older].map((job) => job.id));
      this.#older.push(...jobs.filter((job) => !known.has(job.id)));
      this.#next = next;
      fill(this.trouble);
      this.#draw([...this.newest, ...this.#older]);
      announce(`${many(jobs.length, "older job")} shown`);
      this.list.querySelector(`[data-key="more:${CSS.escape(jobs[0]?.id ?? "")}"] summary`)?.focus();
    } catch (error) {
      fill(this.trouble, failure(error));
    }
    disable(this.more, false);
  }

  #draw(jobs) {
    this.more.hidden = this.#next === null;
    for (const job of jobs) {
      const before = this.#states.get(job.id);
      if (before && before !== job.state && job.over) announce(`Job ${job.kind} is ${job.state}`);
      this.#states.set(job.id, job.state);
    }
    const focused = this.list.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : null;
    const opened = new Set([...this.list.querySelectorAll("details[open]")].map((details) => details.dataset.key));
    fill(this.list, jobs.map((job) => this.#card(job, opened)), jobs.length ? null : h("p", { class: "empty", role: "listitem" }, "No jobs. Run a query as a job from the console's Download menu, or upload a file."));
    if (focused) this.#focus(focused);
  }

  // A button that a job in its new state does not have leaves the focus to the record of the job.
  #focus(key) {
    const more = this.list.querySelector(`[data-key="more:${CSS.escape(key.slice(key.indexOf(":") + 1))}"] summary`);
    (key.startsWith("more:") ? more : this.list.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? more)?.focus({ preventScroll: true });
  }

  #card(job, opened) {
    const { over } = job;
    const level = { done: "good", failed: "bad", cancelled: "warn" }[job.state] ?? "busy";
    const act = (word, key, click) => h("button", { type: "button", "data-key": `${key}:${job.id}`, on: { click } }, word);
    return h("div", { class: "card job", role: "listitem", "data-job": job.id },
      h("header", {}, h("h2", {}, title(job)),
        h("span", { class: `chip ${level}` }, job.state), h("span", { class: "grow" }),
        over ? null : act("Cancel", "cancel", () => this.#try(() => api.cancelJob(job.id))),
        job.has_result ? act("Result", "result", () => this.#try(() => this.#result(job))) : null),
      over ? null : progress(job.progress),
      job.sql ? h("pre", { class: "job-sql" }, job.sql) : null,
      h("p", { class: "hint" }, summary(job)),
      job.error ? h("div", { class: "job-error" }, h("pre", { class: "failure-text" }, job.error.message), job.error.rows.length ? brokenRows(job.error.rows) : null) : null,
      h("details", { "data-key": `more:${job.id}`, open: opened.has(`more:${job.id}`) }, h("summary", {}, "Record"), h("pre", { class: "record" }, JSON.stringify(job.record, null, 2))));
  }

  async #result(job) {
    const response = await api.jobResult(job.id);
    const suffix = Object.values(api.FORMS).find(({ accept }) => (response.headers.get("content-type") ?? "").startsWith(accept))?.suffix ?? "bin";
    await save(response, `job-${job.id}.${suffix}`, () => {});
  }

  async #try(action) {
    try {
      await action();
    } catch (error) {
      fill(this.trouble, failure(error));
      return;
    }
    await this.refresh();
  }
}

/** The progress of a job: its share if it is known, else what it has done so far. */
export function progress({ share, text }) {
  return h("div", { class: "progress" }, h("progress", share === null ? { "aria-label": "Progress" } : { max: 1, value: share, "aria-label": "Progress" }), h("span", {}, share === null ? text : `${Math.round(share * 100)} %${text ? `, ${text}` : ""}`));
}

const WORDS = { query: "Query", upload: "Upload to", download: "Download of" };
const title = (job) => [WORDS[job.kind] ?? job.kind, job.table].filter(Boolean).join(" ");

function summary(job) {
  return [job.created ? `Started ${moment(job.created)} UTC` : "", job.rows !== null ? many(job.rows, "row") : ""].filter(Boolean).join(", ");
}
