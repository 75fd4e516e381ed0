// Rows drawn as they scroll into sight: the arithmetic of a grid of any length; the elements are the page's own.
export {
  Virtualizer, defaultRangeExtractor, elementScroll, measureElement, observeElementOffset, observeElementRect,
} from "@tanstack/virtual-core";
