// The most important facts: whether the process is well, how large the backlog is, which table needs a person.

import { fill, h } from "../static/shared/elements.js";
import { ago, bytes, compact, count, counted, duration } from "../static/shared/format.js";
import { table } from "./tables.js";

const BADGES = { ok: "good", starting: "", failing: "warn", degraded: "bad", left: "" };
const LABELS = { left: "not tended" };
const find = (id) => document.getElementById(id);

/** A table that the configuration leaves alone has no figures and no health. */
export const isTended = (one) => one.health !== "left";

/** The tables that are shown, and the others as one. */
const all = (status) => (status.others ? [...status.tables, status.others] : status.tables);

const sum = (list, value) => list.reduce((total, one) => total + value(one), 0);

export function showHead(status, failed) {
  const health = find("health");
  const waiting = status ? sum(all(status), (one) => one.quarantined_count) : 0;
  const [kind, text] = failed
    ? ["bad", "not reachable"]
    : status.unhealthy.length ? ["bad", "must be restarted"]
      : status.stopping ? ["warn", "stopping"]
        : status.not_ready.length ? ["warn", "not ready"]
          : status.healths.degraded ? ["bad", "a table is degraded"]
            : status.healths.failing ? ["warn", "a table is failing"]
              : waiting ? ["warn", `${counted(waiting, "block waits", "blocks wait")} for a person`]
                : !status.count ? ["", "no table yet"]
                  : status.count === (status.healths.left ?? 0) ? ["", "no table is tended"]
                    : ["good", "all is well"];
  health.className = `badge ${kind}`;
  if (health.textContent !== text) health.textContent = text;
  if (!status) return;
  find("where").textContent = status.url;
  find("where").title = status.url;
  const shard = status.shard ? `, shard ${status.shard[0]} of ${status.shard[1]}` : "";
  find("program").textContent = `${status.program}, ${status.role}${shard}, up for ${duration(status.now - status.started)}`;
}

export function showAlerts(status, { failed, unknown }, choose) {
  const alerts = [];
  const alert = (kind, title, ...rest) => alerts.push(h("div", { class: `alert ${kind}` }, h("strong", {}, title), rest));
  if (failed) alert("bad", "The process does not respond; the page shows its last status.", h("span", {}, failed));
  if (unknown) alert("warn", `There is no table ${unknown} here.`, h("span", {}, "The link is to a table that is gone, or of another lake; another table is shown."));
  for (const reason of status.unhealthy) alert("bad", "The process must be restarted.", h("span", {}, reason));
  for (const one of status.tables.filter((one) => one.health === "degraded")) {
    alert("bad", h("button", { class: "link", type: "button", "data-key": `alert ${one.name}`, onclick: () => choose(one.name) }, `${one.name} is degraded`), h("span", {}, one.problem), one.fix ? h("span", {}, `→ ${one.fix}`) : null);
  }
  for (const reason of status.unhealthy.length ? [] : status.not_ready) alert("warn", "Not ready.", h("span", {}, reason));
  const place = find("alerts");
  const said = alerts.map((one) => one.textContent).join("\n");
  if (place.dataset.said === said) return; // nothing new to announce
  place.dataset.said = said;
  fill(place, alerts);
}

export function showFigures(status) {
  const tables = all(status);
  const running = tables.flatMap((one) => one.running);
  const jobs = sum(tables, (one) => one.backlog_jobs);
  const bad = sum(tables, (one) => one.quarantined_count);
  const ended = sum(tables, (one) => (one.totals.jobs.committed ?? 0) + (one.totals.jobs.uploaded ?? 0));
  const { degraded = 0, failing = 0, left = 0 } = status.healths;
  const ill = degraded + failing;
  const well = [ill ? `${count(ill)} not well` : left ? `${count(status.count - left)} well` : "all well", left ? `${count(left)} not tended` : ""].filter(Boolean).join(", ");
  const billed = Object.values(status.month_cost);
  const speed = sum(running, (one) => one.rows_per_s);
  const figure = (name, value, note, kind = "") => h("div", { class: `card figure ${kind}` }, h("h2", {}, name), h("p", {}, value), h("p", { class: "small muted", title: note }, note));
  fill(find("figures"),
    figure("Backlog", jobs ? counted(jobs, "job") : "none", jobs ? `${bytes(sum(tables, (one) => one.backlog_bytes))} to merge` : "merged as planned"),
    figure("Running", count(running.length), running.length ? `${compact(speed)} rows/s` : status.merges ? "no merge is running" : "this process does not merge"),
    figure("Merged", counted(ended, "job"), `${compact(sum(tables, (one) => one.totals.merged_rows))} rows since the start`),
    figure("Blocks", count(sum(tables, (one) => one.blocks)), `${compact(sum(tables, (one) => one.rows))} rows, ${bytes(sum(tables, (one) => one.bytes))}`),
    figure("Quarantined", count(bad), bad ? "a person must decide" : "no block is damaged", bad ? "bad" : ""),
    figure("Tables", count(status.count), well, ill ? "bad" : ""),
    billed.length
      ? figure("Requests", sum(billed, (one) => one).toFixed(2), "a month at this rate, at your prices")
      : figure("Size", bytes(sum(tables, (one) => one.bytes)), "in a folder, where requests cost nothing"),
  );
}

export function showTables(status, current, choose) {
  find("tables-body").classList.remove("waiting");
  const pages = Math.ceil(status.matching / status.page_size);
  const part = status.matching < status.count || pages > 1 ? `, ${count(status.matching)} shown${pages > 1 ? `: page ${status.page + 1} of ${pages}, those not well first` : ""}` : "";
  find("tables-note").textContent = status.count ? `${counted(status.count, "table")} in this lake${part}` : "";
  find("tables-filter").hidden = status.count <= status.page_size;
  find("tables-before").disabled = status.page === 0;
  find("tables-next").disabled = status.page + 1 >= pages;
  if (status.count && !status.tables.length) {
    fill(find("tables-body"), h("p", { class: "empty" }, "No table has this name."));
    return;
  }
  if (!status.tables.length) {
    fill(find("tables-body"), h("p", { class: "empty" }, "No table was found yet. New tables under the URL are found automatically."));
    return;
  }
  const known = (cell) => (one) => (isTended(one) ? cell(one) : null);
  const columns = [
    { name: "Table", cell: (one) => h("button", { type: "button", class: "link", "aria-current": one.name === current ? "true" : null, "data-key": `table ${one.name}`, onclick: () => choose(one.name) }, one.name) },
    {
      name: "Health", wide: true,
      cell: (one) => [
        h("span", { class: `badge ${BADGES[one.health] ?? ""}` }, LABELS[one.health] ?? one.health), one.since && isTended(one) ? h("span", { class: "small muted" }, ` since ${ago(one.since, status.now).replace(" ago", "")}`) : null,
        one.resting ? h("span", { class: "small muted" }, " quiet, looked at now and then") : null,
        one.problem ? h("div", { class: "small row-problem" }, one.problem) : null, one.fix ? h("div", { class: "small" }, `→ ${one.fix}`) : null,
      ],
    },
    { name: "Version", number: true, cell: known((one) => (one.indexed ? count(one.version ?? 0) : h("span", { class: "muted" }, "no index"))) },
    { name: "Blocks", number: true, cell: known((one) => count(one.blocks)) },
    { name: "Rows", number: true, cell: known((one) => count(one.rows)) },
    { name: "Size", number: true, cell: known((one) => bytes(one.bytes)) },
    { name: "Backlog", number: true, cell: known((one) => (one.backlog_jobs ? `${counted(one.backlog_jobs, "job")}, ${bytes(one.backlog_bytes)}` : h("span", { class: "muted" }, "none"))) },
    { name: "Quarantined", number: true, cell: known((one) => (one.quarantined_count ? h("a", { href: "#quarantine", "data-key": `bad ${one.name}`, onclick: jump }, count(one.quarantined_count)) : h("span", { class: "muted" }, "0"))) },
    { name: "All loops well", number: true, cell: known((one) => ago(one.last_success, status.now)) },
  ];
  const attributes = (one) => ({ "data-current": String(one.name === current), class: one.health });
  fill(find("tables-body"), table("Tables of the lake", columns, status.tables, attributes));
}

function jump(event) {
  event.preventDefault();
  find("quarantine").scrollIntoView({ block: "start" });
}
