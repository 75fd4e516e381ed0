// The gateway's errors with their own messages. No message is changed, and none is read as HTML.

export class GatewayError extends Error {
  /** `status`: of HTTP (0: no response), `detail`: the gateway's object, `id`: the request's id for the log, `lost`: no response came. */
  constructor(message, { status = 0, detail = {}, id = "", retryAfter = null, lost = false } = {}) {
    super(message);
    this.name = "GatewayError";
    Object.assign(this, { status, detail, id, retryAfter, lost });
  }

  /** The row of an upload that broke a rule: [{line, column, value, rule}], or none. */
  get rows() {
    const found = this.detail.line === undefined ? this.detail.detail : this.detail;
    return found && typeof found === "object" && found.line !== undefined && found.rule !== undefined ? [found] : [];
  }

  /** The position of the error in the SQL, in characters from its start, or null. */
  placeIn(sql) {
    const at = this.detail.position;
    if (!at || !Number.isInteger(at.line) || !Number.isInteger(at.column)) return null;
    const lines = sql.split("\n");
    if (at.line < 1 || at.line > lines.length) return null;
    return lines.slice(0, at.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(at.column - 1, 0);
  }
}

/** The error of SQL that the page wrote around a text, with the position in that text. `before` is what comes before it on its first
 *  line, which is line `line` of the whole. A position outside the text is left out. */
export function ofPart(error, part, { line, before }) {
  const at = error.detail?.position;
  if (!Number.isInteger(at?.line)) return error;
  const own = at.line - line + 1;
  const lines = part.split("\n");
  const column = Number.isInteger(at.column) ? at.column - (own === 1 ? before.length : 0) : null;
  const isInside = own >= 1 && own <= lines.length && (column === null || (column >= 1 && column <= lines[own - 1].length + 1));
  const position = isInside ? { line: own, column } : null;
  const said = isInside ? [lines.length > 1 ? `line ${own}` : "", column === null ? "" : `column ${column}`].filter(Boolean).join(", ") : "";
  const message = error.message.replace(/,? at line \d+(, column \d+)?/, said ? `, at ${said}` : "");
  return new GatewayError(message, { ...error, detail: { ...error.detail, message, position } });
}

/** The error in an HTTP response. */
export async function errorOf(response) {
  const text = await response.text().catch(() => "");
  return fromText(text, response.status, (name) => response.headers.get(name));
}

export function fromText(text, status, header) {
  let body = null;
  try { body = JSON.parse(text); } catch { /* not from the gateway itself: shown as it is */ }
  const detail = body && typeof body === "object" ? body : { message: text.slice(0, 2000) };
  return new GatewayError(wordsOf(detail) || `The response has status ${status}.`, {
    status, detail, id: detail.request_id ?? header("x-request-id") ?? "", retryAfter: header("retry-after"),
  });
}

/** The message in the gateway's JSON of an error. */
export const wordsOf = (error) => String(error?.message ?? error?.error ?? "");

export const unreachable = () =>
  new GatewayError("The gateway does not respond: check that it is running and that this machine can reach it, then try again.", { lost: true });
