// The view for an unknown address.

import { fill, h } from "../dom.js";

export class NowhereView {
  constructor(section) {
    this.address = h("code", {});
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Not found")),
      h("p", {}, "There is no page at ", this.address, ": the link is wrong, or of another release."),
      h("p", {}, h("a", { class: "button", href: "#/console" }, "Go to the console")));
  }

  show({ address }) {
    document.title = "Not found · Blockstore";
    fill(this.address, address);
  }
}
