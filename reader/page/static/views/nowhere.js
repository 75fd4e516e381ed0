// An address that is none of this page.

import { fill, h } from "../dom.js";

export class NowhereView {
  constructor(section) {
    this.asked = h("code", {});
    fill(section, h("div", { class: "view-head" }, h("h1", {}, "Not found")),
      h("p", {}, "This page has no address ", this.asked, ": the link is wrong, or of another release."),
      h("p", {}, h("a", { class: "button", href: "#/console" }, "To the console")));
  }

  show({ asked }) {
    document.title = "Not found · Blockstore";
    fill(this.asked, asked);
  }
}
