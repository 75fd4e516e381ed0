// The idempotency key of a change that may be sent again.
// Rules: the same change has the same key until it is known to have ended. So a change whose response was lost happens once,
// and one that was refused can be tried again when what refused it is gone.

import { newKey } from "../api.js";

const UNKNOWN = new Set(["unsettled", "Indeterminate"]);

export class Once {
  #sent = { text: null, key: null };

  /** The key for this change. */
  keyFor(text) {
    if (this.#sent.text !== text) this.#sent = { text, key: newKey() };
    return this.#sent.key;
  }

  /** The change has ended: done, or with this error. */
  ended(error = null) {
    const isRefused = error === null || (error.status >= 400 && error.status < 500 && error.status !== 429 && error.status !== 408);
    const hasFailed = Boolean(error?.detail?.detail?.job) && !UNKNOWN.has(error.detail.error);
    if (isRefused || hasFailed) this.#sent = { text: null, key: null };
  }
}
