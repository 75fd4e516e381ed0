// The SQL editor. CodeMirror is in a shadow tree: there it adopts constructed style sheets, which the page's content
// security policy allows; in the document it would add a <style>, which the policy refuses.
// Keys: Ctrl-Enter runs; Tab accepts a visible completion and otherwise moves the focus on, so that it is never trapped.

import { quoted } from "./format.js";
import {
  Compartment, Decoration, EditorState, EditorView, HighlightStyle, PostgreSQL, Prec, SQLDialect, StateEffect, StateField, acceptCompletion, autocompletion,
  bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus, defaultKeymap, drawSelection,
  highlightActiveLine, highlightSpecialChars, history, historyKeymap, keymap, lineNumbers, placeholder, sql, syntaxHighlighting, tags,
} from "../static/vendor/editor.js";

// PostgreSQL has 700 words. These come before the others that fit as well: "sel" is SELECT, not SELF. WHEN is left out: "whe" is WHERE.
const USUAL = new Set(`SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET DISTINCT ALL AS WITH VALUES UNION EXCEPT JOIN LEFT RIGHT FULL INNER OUTER
  CROSS ON USING AND OR NOT NULL IS IN LIKE ILIKE BETWEEN EXISTS TRUE FALSE CASE THEN ELSE END ASC DESC OVER PARTITION CAST COUNT SUM AVG MIN MAX
  COALESCE ROUND DATE TIMESTAMP INTERVAL INSERT INTO UPDATE SET DELETE MERGE CREATE TABLE ALTER DROP EXPLAIN`.split(/\s+/));
const word = (label, type) => ({ label, type, boost: USUAL.has(label.toUpperCase()) ? -1 : -8 });

const dialect = SQLDialect.define({ ...PostgreSQL.spec, doubleDollarQuotedStrings: false });

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--sql-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--sql-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--sql-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--sql-comment)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--sql-function)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--well)", borderRadius: "12px 12px 0 0", fontSize: "14px", minHeight: "132px", maxHeight: "45vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto", borderRadius: "12px 12px 0 0" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0", minHeight: "112px" },
  ".cm-gutters": { backgroundColor: "var(--well)", color: "var(--faint)", border: "none", paddingLeft: "4px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line-at)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-wrong": { textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--edge)", borderRadius: "8px", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-below": { marginTop: "calc(var(--below-text, 0px) + 3px)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxWidth: "min(90vw, 30em)" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.9", fontStyle: "normal" },
  ".cm-panels": { backgroundColor: "var(--card)", color: "var(--text)" },
});

// The list of completions is below the complete text, if there is space, so that it covers no line.
const LIST_PX = 150;
const belowText = EditorView.updateListener.of(({ state, view }) => {
  if (completionStatus(state) === null) return;
  view.requestMeasure({
    key: "below text",
    read: () => {
      const here = view.coordsAtPos(view.state.selection.main.head);
      const last = view.coordsAtPos(view.state.doc.length);
      const end = Math.min(last?.bottom ?? Infinity, view.scrollDOM.getBoundingClientRect().bottom);
      return here && end + LIST_PX < innerHeight ? Math.max(0, end - here.bottom) : 0;
    },
    write: (px) => view.dom.style.setProperty("--below-text", `${px}px`),
  });
});

const setWrong = StateEffect.define();
const wrong = StateField.define({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    for (const effect of transaction.effects) if (effect.is(setWrong)) return effect.value;
    return transaction.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

export class Editor {
  #language = new Compartment();

  constructor(host, { onRun, onChange, text = "" }) {
    const shadow = host.attachShadow({ mode: "open" });
    this.view = new EditorView({
      parent: shadow, root: shadow,
      state: EditorState.create({ doc: text, extensions: [
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: (view) => { closeCompletions(view); onRun(); return true; } },
          { key: "Tab", run: (view) => completionStatus(view.state) === "active" && acceptCompletion(view) },
        ])),
        lineNumbers(), highlightSpecialChars(), history(), drawSelection(), bracketMatching(), closeBrackets(),
        EditorView.domEventHandlers({ beforeinput: typedOver }),
        autocompletion({ icons: false, activateOnTyping: true }), belowText, highlightActiveLine(), EditorView.lineWrapping, wrong,
        syntaxHighlighting(colours), look, placeholder("SELECT … FROM …"),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        this.#language.of(sql({ dialect })),
        EditorView.contentAttributes.of({ "aria-label": "SQL. Control Enter runs it; Escape, then Tab, leaves the editor." }),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange(update.state.doc.toString()); }),
      ] }),
    });
  }

  get text() { return this.view.state.doc.toString(); }
  set text(value) {
    if (value !== this.text) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: value } });
  }

  /** The selected part, or all. */
  get asked() {
    const { from, to } = this.view.state.selection.main;
    const part = this.view.state.sliceDoc(from, to);
    return part.trim() ? { sql: part, from } : { sql: this.text, from: 0 };
  }

  focus() { this.view.focus(); }

  insert(text) {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.focus();
  }

  /** Complete the names of these tables and their columns: [{name, columns: [{name, type}]}]. */
  complete(tables) {
    const schema = Object.fromEntries(tables.map((table) => [escaped(table.name), {
      self: option(table.name, "table", "table", 2),
      children: table.columns.map((column) => option(column.name, column.type, "property", 1)),
    }]));
    const only = tables.length === 1 ? escaped(tables[0].name) : undefined;
    this.view.dispatch({ effects: this.#language.reconfigure([
      sql({ dialect, schema, defaultTable: only, upperCaseKeywords: true, keywordCompletion: word }),
      dialect.language.data.of({ autocomplete: columnsAnywhere(tables) }),
    ]) });
  }

  /** Underline the word at this position (null: none). */
  mark(place) {
    const length = this.view.state.doc.length;
    if (place === null || place > length) { this.view.dispatch({ effects: setWrong.of(Decoration.none) }); return; }
    const from = Math.min(place, Math.max(length - 1, 0));
    const word = /^[\w$]+|^./.exec(this.view.state.sliceDoc(from, from + 80))?.[0] ?? " ";
    if (from + word.length > length) return;
    this.view.dispatch({ effects: setWrong.of(Decoration.set([Decoration.mark({ class: "cm-wrong" }).range(from, from + word.length)])) });
  }
}

// Closes the list of completions, shown or about to be, as Escape does.
const closeCompletions = (view) => completionKeymap.find(({ key }) => key === "Escape").run(view);

// Text typed over a selection is inserted as a transaction. The browser would keep the colour of the replaced text with a
// style attribute, which the policy refuses with an error.
function typedOver(event, view) {
  const { from, to, empty } = view.state.selection.main;
  if (event.inputType !== "insertText" || event.data === null || empty || event.isComposing || view.composing) return false;
  event.preventDefault();
  const typed = () => view.state.update({ ...view.state.replaceSelection(event.data), userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, typed))) view.dispatch(typed());
  return true;
}

const escaped = (name) => name.replaceAll("\\", "\\\\").replaceAll(".", "\\.");
const option = (name, detail, type, boost) => ({ label: name, apply: quoted(name), detail, type, boost });

// The columns of the tables in the statement, without a qualifier: what people type most.
function columnsAnywhere(tables) {
  return (context) => {
    const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_]*/u);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    const before = context.state.sliceDoc(Math.max(word.from - 40, 0), word.from);
    if (before.endsWith(".") || /\b(from|join)\s+$/i.test(before)) return null;
    const text = context.state.doc.toString().toLowerCase();
    const named = tables.filter((table) => text.includes(table.name.toLowerCase()));
    const options = (named.length ? named : tables).flatMap((table) =>
      table.columns.map((column) => ({ ...option(column.name, `${column.type} · ${table.name}`, "property", 3) })));
    const seen = new Set();
    return { from: word.from, options: options.filter(({ label }) => !seen.has(label) && seen.add(label)), validFor: /^[\p{L}\p{N}_]*$/u };
  };
}
