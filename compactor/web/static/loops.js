// The loops of the lake and of the chosen table: when each last succeeded and failed, and when it runs next.

import { fill, h } from "../static/shared/elements.js";
import { ago, count, duration } from "../static/shared/format.js";
import { table } from "./tables.js";

const find = (id) => document.getElementById(id);

export function showLoops(status, chosen) {
  const rows = [...status.loops.map((loop) => ({ ...loop, of: "the lake" })), ...(chosen?.loops ?? []).map((loop) => ({ ...loop, of: chosen.name }))];
  find("loops-note").textContent = chosen ? `of the lake and of ${chosen.name}` : "";
  const { now } = status;
  const columns = [
    { name: "Loop", cell: (one) => [h("span", {}, one.name), h("div", { class: "small muted" }, one.of)] },
    { name: "Now", cell: (one) => h("span", { class: `badge ${one.failures ? "bad" : one.running ? "" : one.success ? "good" : ""}` }, one.failures ? `failed ${count(one.failures)} × in a row` : one.running ? "running" : one.success ? "well" : "has not run") },
    { name: "Last success", number: true, cell: (one) => ago(one.success, now) },
    { name: "Last failure", number: true, less: true, cell: (one) => ago(one.failure, now) },
    { name: "Took", number: true, less: true, cell: (one) => (one.runs ? duration(one.seconds * 1000) : null) },
    { name: "Next", number: true, cell: (one) => (one.running ? "runs now" : one.next === null ? null : one.next > now ? `in ${duration(one.next - now)}` : "due") },
    { name: "Every", number: true, less: true, cell: (one) => duration(one.interval_s * 1000) },
    { name: "Problem", wide: true, cell: (one) => (one.problem ? h("span", { class: "row-problem" }, one.problem) : null) },
  ];
  fill(find("loops-body"), rows.length ? table("Loops", columns, rows, (one) => ({ class: one.failures ? "degraded" : null })) : h("p", { class: "empty" }, "No loop has been started yet."));
}
