// The page: the visible view, and what all views share.

import { Catalogue } from "./catalogue.js";
import { commands } from "./commands.js";
import { fill } from "./dom.js";
import { Palette } from "./palette.js";
import { parse } from "./route.js";
import { startTokenDialog } from "./token_dialog.js";
import { ConsoleView } from "./views/console.js";
import { JobsView } from "./views/jobs.js";
import { NowhereView } from "./views/nowhere.js";
import { QueriesView } from "./views/queries.js";
import { TableView } from "./views/table.js";
import { TablesView } from "./views/tables.js";
import { UploadView } from "./views/upload.js";

const MAKERS = { console: ConsoleView, tables: TablesView, table: TableView, queries: QueriesView, jobs: JobsView, upload: UploadView, nowhere: NowhereView };
const section = (name) => document.getElementById(`view-${name}`);

const catalogue = new Catalogue();
const views = Object.fromEntries(Object.entries(MAKERS).map(([name, Maker]) => [name, new Maker(section(name), { catalogue })]));
let current = null;

function go() {
  const route = parse(location.hash);
  if (current !== route.view) {
    views[current]?.hide?.();
    for (const name of Object.keys(views)) section(name).hidden = name !== route.view;
    const shown = route.view === "table" ? "tables" : route.view;
    for (const link of document.querySelectorAll("#nav a")) {
      if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (current !== null) document.getElementById("main").focus({ preventScroll: true });
    current = route.view;
    scrollTo(0, 0);
  }
  views[route.view].show(route);
}

function freshness() {
  const place = document.getElementById("fresh");
  const stale = catalogue.tables.filter((table) => ["warn", "bad"].includes(table.level)).length;
  place.classList.toggle("bad", Boolean(catalogue.error));
  fill(place, catalogue.error ? (catalogue.error.status ? `Gateway: ${catalogue.error.status}` : "No response") : stale ? `${stale} with problems` : "");
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment says which view is shown: it is not a place to jump to
  document.getElementById("main").focus();
});
document.addEventListener("themechange", () => views.console.redraw());
new Palette({ button: document.getElementById("find"), commands: () => commands({ catalogue, view: views.console }) });
startTokenDialog(document.getElementById("token"), () => { catalogue.refresh(); go(); });
catalogue.addEventListener("change", freshness);
addEventListener("hashchange", go);
catalogue.start();
go();
