// The libraries that this page stands on, each bundled whole and served beside it: nothing is fetched from elsewhere.

export { tableFromIPC } from "/static/vendor/arrow.js";
export { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "/static/vendor/virtual.js";
