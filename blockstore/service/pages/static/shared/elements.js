// Elements: text from the bucket becomes text nodes and attributes, never markup.

/** An element with attributes (on… are listeners, null and false are left out) and children (texts or nodes). */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A button that copies a text and announces it. */
export function copyButton(text, what = "the command") {
  const button = h("button", { type: "button", class: "button copy", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select it";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no clipboard without https: the text can still be selected
  }
}

/** Replace the children of an element; the focus stays on the child with the same data-key. */
export function fill(element, ...children) {
  const key = element.contains(document.activeElement) ? document.activeElement.dataset?.key : undefined;
  element.replaceChildren(...children.flat(3).filter(Boolean));
  if (key === undefined) return;
  const again = [...element.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  again?.focus({ preventScroll: true });
}
