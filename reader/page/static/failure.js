// An error as people see it: the gateway's own words, the rows that broke a rule, the request's id for the log.

import { h } from "./dom.js";
import { count } from "./format.js";

export function failure(error, retry = null) {
  const hint = { 401: "Enter a token with the button at the top.", 429: wait(error), 503: wait(error) }[error.status];
  return h("div", { class: "failure", role: "alert" },
    h("p", { class: "failure-title" }, TITLES[error.status] ?? (error.status ? `Refused (${error.status})` : "It did not work")),
    h("pre", { class: "failure-text" }, error.message),
    error.rows?.length ? brokenRows(error.rows) : null,
    hint ? h("p", { class: "hint" }, hint) : null,
    error.id ? h("p", { class: "hint" }, "Request ", h("code", {}, error.id)) : null,
    retry ? h("button", { type: "button", on: { click: retry } }, "Try again") : null);
}

const TITLES = {
  400: "The gateway refuses this", 401: "A token is needed", 403: "This token may not do that", 404: "Not found", 408: "It took too long",
  409: "Something changed meanwhile", 413: "Too large", 422: "It needs more memory than it may use", 429: "Too many at once", 503: "Not now", 504: "It took too long",
};

const wait = (error) => (error.retryAfter ? `Try again in ${error.retryAfter} s.` : null);

/** The rows of an upload that broke a rule, as a table. */
export function brokenRows(rows) {
  const shown = rows.slice(0, 100);
  return h("div", { class: "scroll" },
    h("table", { class: "plain", "aria-label": "Rows that were refused" },
      h("thead", {}, h("tr", {}, ["Line", "Column", "Value", "Rule"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, shown.map((row) => h("tr", {}, h("td", { class: "right" }, row.line ?? "–"), h("td", {}, row.column ?? "–"),
        h("td", {}, h("code", {}, row.value === null || row.value === undefined ? "null" : String(row.value))), h("td", {}, row.rule ?? row.message ?? "–"))))),
    rows.length > shown.length ? h("p", { class: "hint" }, `${count(rows.length - shown.length)} more`) : null);
}
