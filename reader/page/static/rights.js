// What the caller of the token may do. The gateway decides on every request; this says which controls are shown.

import * as api from "./api.js";
import { token } from "./session.js";

let known = null;

/** Whether the token may change rows; false if that cannot be found out. */
export const mayWrite = () => may("write");

/** Whether the token may create, alter and drop tables; false if that cannot be found out. */
export const mayDefine = () => may("ddl");

/** Whether the token sees what others run; false if that cannot be found out. */
export const seesAll = () => may("admin");

async function may(scope) {
  if (known?.token !== token()) {
    const asked = { token: token(), caller: api.whoami() };
    known = asked;
    asked.caller.catch(() => { if (known === asked) known = null; });
  }
  try {
    const { scopes } = await known.caller;
    return scopes.includes(scope) || scopes.includes("admin");
  } catch {
    return false;
  }
}
