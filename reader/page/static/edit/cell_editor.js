// The editor of one cell, over its grid. Enter takes the value and goes down, Tab takes it and goes right, Escape leaves it.
// Rules: null and an empty text differ, and a button says which it is. Leaving the editor takes the value.

import { h } from "../dom.js";
import { familyOf, hasEmpty } from "./column_types.js";

const WIDEST = 520;
const HINTS = { date: "2026-01-31", stamp: "2026-01-31 12:30:00", time: "12:30:00", whole: "0", fraction: "0.0", decimal: "0.00" };

/** Open an editor in `place` over `box`. `onTake(text, move)` gets the value, and where to go; `onLeave()` is called after Escape. */
export function openEditor({ place, box, column, text, seed, onTake, onLeave }) {
  let isNull = text === null && seed === null;
  let done = false;
  const control = controlOf(column, seed ?? text);
  const isChoice = control instanceof HTMLSelectElement;
  const opened = control.value;
  const nothing = hasEmpty(column)
    ? h("button", { type: "button", class: "nothing", tabIndex: -1, "aria-pressed": String(isNull), title: "null: no value, not even an empty text", on: { mousedown: (event) => event.preventDefault(), click: () => setNull(!isNull) } }, "null")
    : null;
  const editor = h("div", { class: `cell-editor${nothing ? " nullable" : ""}` }, control, nothing);
  Object.assign(editor.style, { top: `${box.top}px`, left: `${box.left}px`, minWidth: `${box.width}px`, maxWidth: `${Math.max(box.width, WIDEST)}px` });

  const value = () => {
    // A textarea makes every end of a line "\n": a text that was only looked at is returned as it was.
    if (seed === null && control.value === opened && isNull === (text === null)) return text;
    if (isChoice) return control.value === "" ? null : control.value;
    if (hasEmpty(column)) return isNull ? null : control.value;
    return control.value.trim() === "" ? null : control.value.trim();
  };
  const finish = (move) => {
    if (done) return;
    done = true;
    const found = value();
    editor.remove();
    onTake(found, move);
  };
  const leave = () => { done = true; editor.remove(); onLeave(); };

  function setNull(wanted) {
    isNull = wanted;
    if (isNull) control.value = "";
    nothing.setAttribute("aria-pressed", String(isNull));
    control.placeholder = isNull ? "null" : "";
    fit();
    control.focus();
  }

  // As high as its lines, up to eight.
  function fit() {
    if (isChoice) return;
    const lines = control.value.split("\n");
    control.rows = Math.min(Math.max(lines.length, Math.ceil(control.value.length / 60)), 8) || 1;
    control.cols = Math.min(Math.max(...lines.map((line) => line.length + 2), 8), 60);
  }

  control.addEventListener("input", () => { if (nothing && isNull) { isNull = false; nothing.setAttribute("aria-pressed", "false"); control.placeholder = ""; } fit(); });
  editor.addEventListener("focusout", (event) => { if (!editor.contains(event.relatedTarget)) finish(null); });
  editor.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.target === nothing && event.key !== "Escape") return;
    if (event.isComposing) return;
    const move = moveOf(event);
    if (event.key === "Escape") { event.preventDefault(); leave(); }
    else if (move) { event.preventDefault(); finish(move); }
  });
  place.append(editor);
  fit();
  control.focus({ preventScroll: true });
  if (!isChoice) control.setSelectionRange(seed === null ? 0 : control.value.length, control.value.length);
  editor.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function moveOf(event) {
  if (event.key === "Enter" && !event.shiftKey) return { down: 1, right: 0 };
  if (event.key === "Tab") return { down: 0, right: event.shiftKey ? -1 : 1 };
  return null;
}

function controlOf(column, text) {
  const family = familyOf(column);
  const label = `${column.name}, ${column.kind ?? column.type}${column.nullable === false ? ", never null" : ""}`;
  if (family === "truth") {
    return h("select", { "aria-label": label }, h("option", { value: "" }, "null"), ["true", "false"].map((value) => h("option", { value, selected: value === text }, value)));
  }
  return h("textarea", {
    "aria-label": label, value: text ?? "", rows: 1, spellcheck: String(family === "text"), autocomplete: "off", autocapitalize: "off",
    inputmode: { whole: "text", link: "url" }[family] ?? "text",
    placeholder: text === null && hasEmpty(column) ? "null" : HINTS[family] ?? "",
  });
}
