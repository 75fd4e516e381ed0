// A choice of columns for a chart, by their names: so it outlives its result, and can be saved with a query.

import { facetable } from "./chart_facets.js";

const KINDS = new Set(["line", "bars"]);

/** {kind, x, ys, split, facet} with names, null for none. */
export const named = ({ columns }, { kind, x, ys, split, facet }) => {
  const name = (place) => (place === null ? null : columns[place].name);
  return { kind, x: name(x), ys: ys.map(name), split: name(split), facet: name(facet) };
};

/** The choice with the numbers of a result's columns; null if it does not fit the result. */
export function placed(result, wanted) {
  if (!isChoice(wanted)) return null;
  const { columns } = result;
  const place = (name, isRight) => (name === null ? null : columns.findIndex((column, at) => column.name === name && isRight(column, at)));
  const facets = new Set(facetable(result));
  const found = {
    kind: wanted.kind, x: place(wanted.x, () => true), ys: wanted.ys.map((name) => place(name, ({ kind }) => kind === "number")),
    split: place(wanted.split, ({ kind }) => kind === "text" || kind === "truth"), facet: place(wanted.facet, (_, at) => facets.has(at)),
  };
  return [found.x, ...found.ys, found.split, found.facet].includes(-1) ? null : found;
}

/** Whether a value that was stored is a choice by names. */
export function isChoice(value) {
  const isName = (name) => name === null || typeof name === "string";
  return value !== null && typeof value === "object" && KINDS.has(value.kind) && isName(value.x) && isName(value.split) && isName(value.facet)
    && Array.isArray(value.ys) && value.ys.every((name) => typeof name === "string");
}
