// The view for an unknown address.

import { fill, h } from "../dom.js";

export class NowhereView {
  constructor(section) {
    this.asked = h("code", {});
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Not found")),
      h("p", {}, "There is no page at ", this.asked, ": the link is wrong, or of another release."),
      h("p", {}, h("a", { class: "button", href: "#/console" }, "Go to the console")));
  }

  show({ asked }) {
    document.title = "Not found · Blockstore";
    fill(this.asked, asked);
  }
}
