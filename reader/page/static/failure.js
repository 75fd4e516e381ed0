// An error on the page: the gateway's message, the rows that broke a rule, and the request's id for the log.

import { h } from "./dom.js";
import { count } from "./format.js";

export function failure(error, retry = null) {
  const hint = { 401: "Enter a token with the button at the top.", 429: wait(error), 503: wait(error) }[error.status];
  return h("div", { class: "failure", role: "alert" },
    h("p", { class: "failure-title" }, TITLES[error.status] ?? (error.status ? `Refused (${error.status})` : "Failed")),
    h("pre", { class: "failure-text" }, error.message),
    error.rows?.length ? brokenRows(error.rows) : null,
    hint ? h("p", { class: "hint" }, hint) : null,
    error.id ? h("p", { class: "hint" }, "Request ", h("code", {}, error.id)) : null,
    retry ? h("button", { type: "button", on: { click: retry } }, "Try again") : null);
}

const TITLES = {
  400: "Invalid request", 401: "A token is required", 403: "This token lacks the permission", 404: "Not found", 408: "Timed out",
  409: "Conflict with another change", 413: "Too large", 422: "Not enough memory", 429: "Too many requests", 499: "Cancelled", 503: "Unavailable", 504: "Timed out",
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
