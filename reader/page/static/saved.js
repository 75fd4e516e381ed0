// Queries that were saved under a name, in this browser's localStorage until they are removed, with the chart that was shown of
// them, if one was. Choosing one fills the editor and runs nothing.

import { isChoice } from "./chart_choice.js";
import { announce, fill, h, labelled } from "./dom.js";
import { menu } from "./menu.js";

const KEY = "blockstore.saved";
const MOST = 200;

/** The saved queries by name, in the order of their names: [[name, sql]] or [[name, sql, chart]]. */
export function saved() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const good = (Array.isArray(found) ? found : []).filter((one) => Array.isArray(one) && one.slice(0, 2).every((part) => typeof part === "string") && (one.length === 2 || (one.length === 3 && isChoice(one[2]))));
    return good.toSorted(([one], [two]) => one.localeCompare(two));
  } catch {
    return [];
  }
}

/** The name under which this text was saved, or null. */
export const savedName = (sql) => saved().find(([, own]) => own === sql)?.[0] ?? null;

/** Save a query in the place of one of the same name. Returns why it was not saved, or null. */
export function saveQuery(name, sql, chart = null) {
  const others = saved().filter(([other]) => other !== name);
  if (others.length >= MOST) return `There are ${MOST} saved queries, as many as the page keeps: remove one first.`;
  return store([...others, chart ? [name, sql, chart] : [name, sql]]);
}

export const removeQuery = (name) => store(saved().filter(([other]) => other !== name));

function store(queries) {
  try {
    localStorage.setItem(KEY, JSON.stringify(queries));
    return null;
  } catch {
    return "This browser keeps nothing for the page, or its storage is full: nothing was saved.";
  }
}

/** The menu of the console; `text()` is the query in the editor, `chart()` the chart that is shown of it or null, and
 *  `onChoose(sql, chart)` takes one that was saved. */
export function savedMenu({ text, chart, onChoose }) {
  const summary = h("summary", { id: "saved", on: { click: () => draw() } }, "Saved");
  const name = h("input", { type: "text", id: "saved-name", maxlength: 80, autocomplete: "off", required: true, on: { input: () => look() } });
  const save = h("button", { type: "submit" }, "Save");
  const said = h("p", { class: "hint", role: "status" });
  const list = h("ul", { class: "saved-list", "aria-label": "Saved queries" });
  const form = h("form", { class: "row", on: { submit: (event) => { event.preventDefault(); keep(); } } }, labelled("Name of this query", name, { class: "field grow" }), save);
  const element = menu({ summary, kind: "kept", card: [form, said, list, h("p", { class: "hint" }, "Kept in this browser only, until they are removed.")] });

  function keep() {
    const wanted = name.value.trim();
    const sql = text();
    if (!wanted) return;
    const refused = sql.trim() ? saveQuery(wanted, sql, chart()) : "The editor is empty: write a query first.";
    draw();
    fill(said, refused ?? `Saved as ${wanted}.`);
  }

  function look() {
    fill(said);
    fill(save, saved().some(([other]) => other === name.value.trim()) ? "Replace" : "Save");
  }

  function draw() {
    look();
    fill(list, saved().map(([own, sql, kept = null]) => h("li", {},
      h("button", { type: "button", title: sql, on: { click: () => { element.open = false; name.value = own; onChoose(sql, kept); } } }, own),
      h("button", { type: "button", class: "link", "aria-label": `Remove ${own}`, on: { click: () => remove(own) } }, "Remove"))),
      saved().length ? null : h("li", { class: "hint" }, "No saved queries yet."));
  }

  function remove(own) {
    const refused = removeQuery(own);
    draw();
    if (refused) fill(said, refused);
    else announce(`${own} removed`);
    name.focus();
  }

  /** Open the menu to save what is in the editor. */
  element.begin = () => { element.open = true; draw(); name.focus(); name.select(); };
  return element;
}
