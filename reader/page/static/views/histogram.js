// The distribution of a column's values as small bars, and as words for screen readers; of a label its values.

import { h } from "../dom.js";
import { count } from "../format.js";

const MOST_VALUES = 3;

/** Bars of about how many values are in each part of the range; `column` is {min, max, bins}. */
export function histogram({ min, max, bins }) {
  const most = Math.max(...bins, 1);
  const total = bins.reduce((sum, number) => sum + number, 0);
  const fullest = bins.indexOf(Math.max(...bins)) + 1;
  const words = bins.length === 1 ? `All ${count(total)} values are ${min}.`
    : `About ${count(total)} values from ${min} to ${max}. Of ${bins.length} equal parts of this range, part ${fullest} has the most: about ${count(most)}.`;
  const element = h("div", { class: "histogram", role: "img", "aria-label": words, title: words }, bins.map((number) => {
    const bar = h("span", { class: number ? null : "gap" });
    bar.style.height = `${Math.max(number ? 8 : 4, Math.round((number / most) * 100))}%`;
    return bar;
  }));
  return element;
}

/** The most frequent values of a label, with their rows. */
export function values(found) {
  const shown = found.slice(0, MOST_VALUES).map(({ value, rows }) => `${value} (${count(rows)})`).join(", ");
  return found.length > MOST_VALUES ? `${shown} and ${count(found.length - MOST_VALUES)} more` : shown || null;
}
