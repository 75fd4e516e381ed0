// The dialog for a token. The token goes to sessionStorage and nowhere else.

import { fill, h } from "./dom.js";
import { forgetQueries } from "./recent.js";
import { keepToken, token } from "./session.js";

export function startTokenDialog(button, onChange) {
  const field = h("input", { type: "password", autocomplete: "off", spellcheck: "false", id: "token-field", "aria-describedby": "token-why" });
  const why = h("p", { class: "hint", id: "token-why" });
  const keep = (value) => { keepToken(value); field.value = ""; dialog.close(); say(); onChange(); };
  // Whoever closed the dialog has seen why it was there: requests sent before then do not open it again.
  let dismissed = 0;
  const dismiss = () => { dismissed = performance.now(); dialog.close(); };
  const dialog = h("dialog", { class: "token", "aria-labelledby": "token-title", on: { cancel: (event) => { event.preventDefault(); dismiss(); } } },
    h("form", { method: "dialog", on: { submit: (event) => { event.preventDefault(); keep(field.value.trim()); } } },
      h("h2", { id: "token-title" }, "Token"), why, field,
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Use token"),
        h("button", { type: "button", on: { click: () => { forgetQueries(); keep(""); } } }, "Forget token"), h("button", { type: "button", on: { click: dismiss } }, "Close"))));
  document.body.append(dialog);
  const open = (message) => {
    fill(why, message ?? "The token is kept until this tab is closed and is sent to this gateway only.");
    if (!dialog.open) dialog.showModal();
  };
  const say = () => { button.setAttribute("aria-label", token() ? "Token: in use" : "Token: none"); button.classList.toggle("on", Boolean(token())); };
  button.addEventListener("click", () => open());
  document.addEventListener("blockstore:unauthorised", ({ detail }) => { if (detail.began > dismissed) open(detail.message); });
  say();
}
