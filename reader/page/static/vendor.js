// The libraries of this page, each bundled and served with it: nothing is loaded from another host.

export { tableFromIPC } from "../static/vendor/arrow.js";
export { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "../static/vendor/virtual.js";
