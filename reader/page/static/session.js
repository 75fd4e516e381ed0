// The token, in this tab's sessionStorage only: never in an address, in localStorage or in a log.

const KEY = "blockstore.token";
let memory = "";

export function token() {
  try { return sessionStorage.getItem(KEY) ?? memory; } catch { return memory; }
}

export function keepToken(value) {
  memory = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch { /* storage is off: kept while the page is open */ }
}
