// The queries that were run in this browser, the newest first. They are in its localStorage until they are forgotten: on
// demand, or with the token. Choosing one fills the editor and runs nothing.

import { fill, h } from "./dom.js";
import { menu } from "./menu.js";

const KEY = "blockstore.queries";
const MOST = 50;
const LONGEST = 20_000; // characters: what a program has made is not what a person looks for

/** Keep a query; one that is kept already becomes the newest. */
export function keepQuery(sql) {
  if (sql.length > LONGEST) return;
  try {
    localStorage.setItem(KEY, JSON.stringify([sql, ...kept().filter((other) => other !== sql)].slice(0, MOST)));
  } catch { /* storage is off or full: the query runs all the same */ }
}

export function forgetQueries() {
  try { localStorage.removeItem(KEY); } catch { /* storage is off: nothing is kept */ }
}

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((sql) => typeof sql === "string") : [];
  } catch {
    return [];
  }
}

/** The menu of the console; `onChoose(sql)`. */
export function recent({ onChoose }) {
  const summary = h("summary", { id: "recent", on: { click: () => draw() } }, "Recent");
  const list = h("ul", { class: "recent-list" });
  const forget = h("button", { type: "button", on: { click: () => { forgetQueries(); draw(); summary.focus(); } } }, "Forget all");
  const element = menu({ summary, kind: "recent", card: [list, h("p", { class: "hint" }, "Kept in this browser only."), forget] });

  function draw() {
    const found = kept();
    forget.disabled = found.length === 0;
    fill(list, found.map((sql) => h("li", {}, h("button", { type: "button", title: sql, on: { click: () => { element.open = false; onChoose(sql); } } }, sql))),
      found.length ? null : h("li", { class: "hint" }, "No queries yet."));
  }

  return element;
}
