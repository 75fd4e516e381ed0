// Elements from values, the only way in which this page makes elements: text becomes text nodes, never HTML, so the name of
// a table or a column, a value or an error can never become markup.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "tabIndex", "multiple", "indeterminate"]);

/** An element with attributes, listeners (`on: {click}`) and children (nodes, texts, arrays; null and false are left out). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false && !PROPERTIES.has(name)) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** Replace all children of `element`. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/** Announce a text to screen readers. */
export function announce(text) {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}

/** A text for screen readers alone. */
export const unseen = (text) => h("span", { class: "unseen" }, text);

/** A form control with a label before it. */
export function labelled(text, control, extra = {}) {
  return h("label", { class: "field", ...extra }, h("span", { class: "label" }, text), control);
}
