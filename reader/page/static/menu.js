// A card that opens below its summary. One is open at a time; Escape or a click elsewhere closes it.

import { h } from "./dom.js";

export function menu({ summary, kind = "", card }) {
  const element = h("details", { class: `menu ${kind}`, name: "menu", on: { keydown: (event) => {
    if (event.key !== "Escape" || !element.open) return;
    element.open = false;
    summary.focus();
  } } }, summary, h("div", { class: "menu-card" }, card));
  document.addEventListener("pointerdown", (event) => { if (element.open && !element.contains(event.target)) element.open = false; });
  return element;
}
