// The SQL editor: CodeMirror 6 with what a console needs. Mount it in a shadow tree, where its styles are constructed
// sheets; in the document itself it would add a <style>, which the pages' content security policy refuses.
export { Compartment, EditorSelection, EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
export {
  Decoration, EditorView, drawSelection, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers, placeholder,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export {
  acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus, startCompletion,
} from "@codemirror/autocomplete";
export { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
export { PostgreSQL, SQLDialect, StandardSQL, keywordCompletionSource, schemaCompletionSource, sql } from "@codemirror/lang-sql";
export { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
export { forceLinting, lintGutter, linter, setDiagnostics } from "@codemirror/lint";
export { tags } from "@lezer/highlight";
