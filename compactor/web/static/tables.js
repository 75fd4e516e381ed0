// Tables of the page: on a narrow screen each row becomes a card, whose lines name their column.

import { h } from "../static/shared/elements.js";

/** A table of these columns ({ name, number, wide, less, cell(row) → text, node or list }) over these rows; `less` ones are left out there. */
export function table(caption, columns, rows, attributes = () => ({})) {
  const head = columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : null }, column.name));
  const body = rows.map((row) => h("tr", attributes(row), columns.map((column) => cell(column, row))));
  return h("table", { class: "stack" }, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
}

function cell(column, row) {
  const value = column.cell(row);
  const none = value === null || value === "";
  const kind = [column.number ? "number" : "", column.wide ? "wide" : "", column.less ? "less" : "", none ? "none" : ""].filter(Boolean).join(" ");
  return h("td", { class: kind || null, "data-label": column.name }, none ? "" : value);
}

/** A table that scrolls by itself where it is long or wide; reached by keys. */
export function scrolling(label, inner) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, "data-key": `scroll ${label}` }, inner);
}
