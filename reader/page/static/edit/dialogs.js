// A dialog with a title, a body and a row of buttons. It is removed when it closes, and the focus goes back.

import { fill, h } from "../dom.js";

let count = 0;

/** Open a dialog; returns {element, close, say}. `buttons(close)` makes its buttons; `say(node)` shows a message above them. */
export function openDialog({ title, body, buttons, kind = "", onClose = () => {} }) {
  const from = document.activeElement;
  count += 1;
  const id = `dialog-${count}`;
  const said = h("div", { class: "dialog-said", "aria-live": "polite" });
  const close = () => { element.close(); element.remove(); from?.focus?.({ preventScroll: true }); onClose(); };
  const element = h("dialog", { class: `form ${kind}`, "aria-labelledby": id, on: { cancel: (event) => { event.preventDefault(); close(); } } },
    h("h2", { id }, title), h("div", { class: "dialog-body" }, body), said, h("div", { class: "row dialog-buttons" }, buttons(close)));
  document.body.append(element);
  element.showModal();
  return { element, close, say: (...nodes) => { fill(said, nodes); if (nodes.length) said.scrollIntoView({ block: "nearest" }); } };
}

export const button = (text, click, kind = "") => h("button", { type: "button", class: kind, on: { click } }, text);
