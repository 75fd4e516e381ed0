// What the palette offers: the views, the tables, the saved queries and what can be done.

import { toTable } from "./route.js";
import { saved } from "./saved.js";

/** [{kind, name, act}]; `view` is the console's. */
export function commands({ catalogue, view }) {
  const go = (hash) => () => { location.hash = hash; };
  const inConsole = (act) => () => {
    if (/^#?$|^#\/console/.test(location.hash)) { act(); return; }
    addEventListener("hashchange", () => act(), { once: true }); // after the view, which takes the focus
    location.hash = "#/console";
  };
  const theme = document.getElementById("theme");
  const looks = [...theme.options].map(({ value, text }) => ({ kind: "Action", name: `Theme: ${text}`, act: () => { theme.value = value; theme.dispatchEvent(new Event("change", { bubbles: true })); } }));
  return [
    ...[...document.querySelectorAll("#nav a")].map((link) => ({ kind: "View", name: link.textContent, act: go(link.getAttribute("href")) })),
    ...saved().map(([name, sql, chart = null]) => ({ kind: "Saved query", name, act: inConsole(() => view.put(sql, chart)) })),
    ...catalogue.tables.flatMap(({ name }) => [{ kind: "Table", name, act: go(toTable(name)) }, { kind: "Rows of a table", name, act: go(toTable(name, "rows")) }]),
    { kind: "Action", name: "Run the query", act: inConsole(() => view.run()) },
    { kind: "Action", name: "Explain the query", act: inConsole(() => view.explain()) },
    { kind: "Action", name: "Save the query", act: inConsole(() => view.beginToSave()) },
    { kind: "Action", name: "Edit the query", act: inConsole(() => view.edit()) },
    { kind: "Action", name: "Cancel the query", act: inConsole(() => view.stop()) },
    { kind: "Action", name: "Enter a token", act: () => document.getElementById("token").click() },
    ...looks,
  ];
}
