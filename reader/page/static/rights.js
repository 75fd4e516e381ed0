// What the caller of the token may do. The gateway decides on every request; this says which controls are shown.

import * as api from "./api.js";
import { token } from "./session.js";

let known = null;

/** Whether the token has the scope `write`; false if that cannot be found out. */
export async function mayWrite() {
  if (known?.token !== token()) {
    const asked = { token: token(), caller: api.whoami() };
    known = asked;
    asked.caller.catch(() => { if (known === asked) known = null; });
  }
  try {
    const { scopes } = await known.caller;
    return scopes.includes("write") || scopes.includes("admin");
  } catch {
    return false;
  }
}
