// A chart of a result: lines over time or numbers, bars over names, with controls for the columns; one for all rows, or small
// ones, one for each value of a column (chart_facets.js).

import { named, placed } from "./chart_choice.js";
import { suggest } from "./chart_data.js";
import { facetable, panelsOf } from "./chart_facets.js";
import { toPng, toSvg } from "./chart_file.js";
import { plotOf } from "./chart_plot.js";
import { toCsv } from "./chart_values.js";
import { announce, fill, h, labelled } from "./dom.js";
import { give } from "./downloads.js";
import { count } from "./format.js";

const COLOURS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];

export class Chart {
  #plots = [];
  #size = null;
  #picture = null;

  /** `name` is that of its files; `wanted` a choice of columns by their names, taken if it fits; `onChoice` gets each new one. */
  constructor(result, { name = "chart", wanted = null, onChoice = () => {} } = {}) {
    this.result = result;
    this.name = name;
    this.onChoice = onChoice;
    const suggested = suggest(result);
    this.choice = suggested && (placed(result, wanted) ?? { ...suggested, facet: null });
    this.controls = h("div", { class: "chart-controls" });
    this.area = h("div", { class: "chart-area" });
    this.legend = h("ul", { class: "chart-legend", "aria-label": "Series", hidden: true });
    this.note = h("p", { class: "hint", role: "status" });
    const file = (form, make) => h("button", { type: "button", "data-chart-file": form, on: { click: () => this.#save(form, make) } }, form.toUpperCase());
    this.files = h("div", { class: "row chart-files", role: "group", "aria-label": "Download the chart" }, h("span", { class: "label", "aria-hidden": "true" }, "Download the chart"),
      file("svg", (picture) => new Blob([toSvg(picture)], { type: "image/svg+xml" })), file("png", toPng),
      file("csv", ({ panels }) => new Blob([toCsv(panels, this.#column(this.choice.x) ?? "row", this.#column(this.choice.facet))], { type: "text/csv" })));
    this.element = h("div", { class: "chart" }, this.controls, this.area, this.legend, this.note, this.files);
    if (this.choice) this.#choose();
    else fill(this.note, "A chart needs at least one row and a column of numbers, for example count(*) with GROUP BY.");
  }

  start() {
    if (!this.choice) return;
    this.onChoice(named(this.result, this.choice));
    this.#size = new ResizeObserver(() => this.#plots.forEach(({ plot, place }) => plot.setSize({ width: place.clientWidth, height: this.#height(place) })));
    this.#size.observe(this.area);
    this.draw();
  }

  stop() {
    this.#size?.disconnect();
    this.#drop();
  }

  #drop() {
    this.#plots.forEach(({ plot }) => plot.destroy());
    this.#plots = [];
  }

  #column(place) { return place === null ? null : this.result.columns[place].name; }

  #height(place) {
    return this.choice.facet === null ? Math.max(220, Math.min(420, innerHeight - 500, place.clientWidth * 0.6)) : Math.max(190, Math.min(260, place.clientWidth * 0.6));
  }

  #choose() {
    const { columns } = this.result;
    const change = (part) => { this.choice = { ...this.choice, ...part }; this.onChoice(named(this.result, this.choice)); this.draw(); };
    const options = (places, chosen, none) => [
      none ? h("option", { value: "", selected: chosen === null }, none) : null,
      ...places.map((place) => h("option", { value: place, selected: place === chosen }, columns[place].name)),
    ];
    const every = columns.map((_, place) => place);
    const select = (label, places, key, none) => labelled(label, h("select", {
      "data-choice": key, on: { change: (event) => change({ [key]: event.target.value === "" ? null : Number(event.target.value) }) },
    }, options(places, this.choice[key], none)));
    const kind = labelled("Chart", h("select", { "data-choice": "kind", on: { change: (event) => change({ kind: event.target.value }) } },
      ["line", "bars"].map((name) => h("option", { value: name, selected: this.choice.kind === name }, name === "line" ? "Lines" : "Bars"))));
    const numbers = every.filter((place) => columns[place].kind === "number");
    const ys = h("fieldset", { class: "field ys" }, h("legend", { class: "label" }, "Values"), numbers.map((place) => h("label", { class: "check" },
      h("input", { type: "checkbox", checked: this.choice.ys.includes(place), "data-y": place, on: { change: (event) => {
        const chosen = event.target.checked ? [...this.choice.ys, place] : this.choice.ys.filter((y) => y !== place);
        change({ ys: chosen.sort((one, two) => one - two) });
      } } }), columns[place].name)));
    fill(this.controls, kind, select("X axis", every, "x", "row"), select("One series per", every.filter((place) => ["text", "truth"].includes(columns[place].kind)), "split", "–"),
      select("One chart per", facetable(this.result), "facet", "–"), ys);
  }

  draw() {
    this.#drop();
    fill(this.area);
    this.files.hidden = true;
    this.legend.hidden = true;
    if (!this.choice || !this.area.isConnected) return;
    if (this.choice.ys.length === 0) { fill(this.note, "Choose at least one column of values."); return; }
    const { whole, panels, ranges, refused } = panelsOf(this.result, this.choice);
    if (refused) { fill(this.note, refused); return; }
    fill(this.note, whole.note);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const colours = {
      ground: colour("--card"), text: colour("--text"), dim: colour("--dim"), grid: colour("--grid-line"),
      series: whole.series.map((_, place) => colour(COLOURS[place % COLOURS.length])),
      dashes: whole.series.map((_, place) => (place >= COLOURS.length ? [6, 4] : null)),
    };
    const isFaceted = this.choice.facet !== null;
    this.#name(isFaceted, whole, panels.length);
    const places = panels.map(({ name, data }) => (isFaceted ? this.#facet(name, data) : this.area));
    this.#plots = panels.map(({ data }, at) => {
      const place = places[at];
      return { place, plot: plotOf(place, data, { kind: this.choice.kind, width: place.clientWidth, height: this.#height(place), colours, ranges, hasLegend: !isFaceted }) };
    });
    if (isFaceted) this.#drawLegend(whole, colours);
    this.#picture = { area: this.area, series: whole.series, note: whole.note, isBars: whole.labels !== null, colours, panels: panels.map((panel, at) => ({ ...panel, plot: this.#plots[at].plot })) };
    this.files.hidden = false;
  }

  // One picture is described as such, many as a group of pictures.
  #name(isFaceted, whole, many) {
    this.area.classList.toggle("facets", isFaceted);
    this.area.setAttribute("role", isFaceted ? "group" : "img");
    this.area.setAttribute("aria-label", isFaceted ? `${count(many)} charts, one for each value of ${this.#column(this.choice.facet)}` : described(whole, this.choice.kind));
  }

  // The place of a small chart, below its name.
  #facet(name, data) {
    const place = h("div", { class: "facet-plot" });
    const title = `${this.#column(this.choice.facet)}: ${name}`;
    this.area.append(h("figure", { class: "facet", role: "img", "aria-label": `${title}. ${described(data, this.choice.kind)}`, "data-facet": name }, h("figcaption", { title }, name), place));
    return place;
  }

  #drawLegend({ series }, colours) {
    this.legend.hidden = false;
    fill(this.legend, series.map(({ name }, place) => {
      const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colours.series[place];
      return h("li", {}, swatch, name);
    }));
  }

  async #save(form, make) {
    try {
      give(await make(this.#picture), `${this.name}.${form}`);
      announce("Chart saved");
    } catch (error) {
      fill(this.note, error.message);
    }
  }
}

function described(data, kind) {
  const points = `${count(data.xs.length)} ${kind === "bars" ? "bars" : "points"}`;
  return `Chart of ${data.series.slice(0, 5).map(({ name }) => name).join(", ")}: ${points}. The table has the same values.`;
}
