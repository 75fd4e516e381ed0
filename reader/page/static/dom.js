// Elements from values, the only way in which this page makes elements: text becomes text nodes, never HTML, so the name of
// a table or a column, a value or an error can never become markup.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "tabIndex", "multiple", "indeterminate"]);

/** Whether this is used with fingers: hints name no keys then. */
export const byFinger = matchMedia("(pointer: coarse)").matches;

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

/** `fill`, which keeps the focus: on the same control among the new children, else on the main part of the page. */
export function refill(element, ...children) {
  const had = document.activeElement !== element && element.contains(document.activeElement) ? sameness(document.activeElement) : null;
  fill(element, ...children);
  if (had === null) return element;
  const same = [...element.querySelectorAll("a, button, summary, input, select, textarea, [tabindex]")].find((one) => sameness(one) === had);
  (same ?? document.getElementById("main")).focus({ preventScroll: true });
  return element;
}

const sameness = (one) => JSON.stringify([one.tagName, one.id, one.getAttribute("href"), one.dataset.key, one.getAttribute("aria-label"), one.matches("a, button, summary") ? one.textContent : one.name]);

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

const held = new WeakSet();

/** Disable a control, or enable it: one that had the focus, which is lost with that, gets it back. */
export function disable(control, isDisabled) {
  if (isDisabled && control === document.activeElement) held.add(control);
  control.disabled = isDisabled;
  if (!isDisabled && held.delete(control) && document.activeElement === document.body) control.focus({ preventScroll: true });
}
