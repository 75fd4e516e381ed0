// The forms of a table's columns, in their order.

import { fill, h } from "../dom.js";
import { ColumnForm, sayAt } from "./column_form.js";

export class ColumnList {
  forms = [];

  constructor({ onChange = () => {} } = {}) {
    this.onChange = onChange;
    this.list = h("div", { class: "column-forms" });
    this.element = h("div", {}, this.list, h("button", { type: "button", on: { click: () => this.add().name.focus() } }, "Add column"));
  }

  /** Add a form; `options` as ColumnForm takes them. */
  add(options = {}) {
    const form = new ColumnForm({ mayBeRequired: this.mayBeRequired ?? true, ...options, onMove: (one, by) => this.#move(one, by), onRemove: (one) => this.#remove(one) });
    this.forms.push(form);
    this.list.append(form.element);
    this.onChange();
    return form;
  }

  /** Show what is wrong before anything is sent; whether nothing is. */
  check() {
    for (const form of this.forms) form.say(form.isDropped ? "" : form.problem ?? "");
    return this.forms.every((form) => form.isDropped || form.problem === null);
  }

  /** Show an error at its column; whether it names one. */
  say(message) { return sayAt(this.forms, message); }

  #move(form, by) {
    const from = this.forms.indexOf(form);
    const to = from + by;
    if (to < 0 || to >= this.forms.length) return;
    this.forms.splice(from, 1);
    this.forms.splice(to, 0, form);
    fill(this.list, this.forms.map(({ element }) => element));
    this.onChange();
  }

  #remove(form) {
    this.forms.splice(this.forms.indexOf(form), 1);
    form.element.remove();
    this.onChange();
  }
}
