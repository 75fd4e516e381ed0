// What the gateway says went wrong, as it says it. Nothing is reworded, and nothing is ever read as HTML.

export class GatewayError extends Error {
  /** `status` of HTTP (0: no answer), `detail`: the gateway's own object, `id`: the request's id for a log. */
  constructor(message, { status = 0, detail = {}, id = "", retryAfter = null } = {}) {
    super(message);
    this.name = "GatewayError";
    Object.assign(this, { status, detail, id, retryAfter });
  }

  /** The row of an upload that broke a rule: [{line, column, value, rule}], or none. */
  get rows() {
    const found = this.detail.line === undefined ? this.detail.detail : this.detail;
    return found && typeof found === "object" && found.line !== undefined && found.rule !== undefined ? [found] : [];
  }

  /** Where in the SQL it is wrong, counted in characters from its start, or null. */
  placeIn(sql) {
    const at = this.detail.position;
    if (!at || !Number.isInteger(at.line) || !Number.isInteger(at.column)) return null;
    const lines = sql.split("\n");
    if (at.line < 1 || at.line > lines.length) return null;
    return lines.slice(0, at.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(at.column - 1, 0);
  }
}

/** The error that an answer of HTTP holds. */
export async function errorOf(response) {
  const text = await response.text().catch(() => "");
  return fromText(text, response.status, (name) => response.headers.get(name));
}

export function fromText(text, status, header) {
  let body = null;
  try { body = JSON.parse(text); } catch { /* not from the gateway itself: said as it came */ }
  const detail = body && typeof body === "object" ? body : { message: text.slice(0, 2000) };
  return new GatewayError(wordsOf(detail) || `The gateway answered ${status}.`, {
    status, detail, id: detail.request_id ?? header("x-request-id") ?? "", retryAfter: header("retry-after"),
  });
}

/** The sentence in the gateway's JSON of an error. */
export const wordsOf = (error) => String(error?.message ?? error?.error ?? "");

export const unreachable = () =>
  new GatewayError("The gateway does not answer: see whether it runs and whether this machine reaches it, then try again.");
