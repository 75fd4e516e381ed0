// The gateway's HTTP API: the only module that knows its paths. All requests go to this page's own origin.

import { parseExact } from "./edit/exact_json.js";
import { GatewayError, errorOf, fromText, ofPart, unreachable } from "./errors.js";
import { inQuotes } from "./format.js";
import { token } from "./session.js";
import { jobOf, tableOf } from "./shapes.js";

export const FORMS = {
  arrow: { accept: "application/vnd.apache.arrow.stream", label: "Arrow", suffix: "arrow" },
  csv: { accept: "text/csv", label: "CSV", suffix: "csv" },
  tsv: { accept: "text/tab-separated-values", label: "TSV", suffix: "tsv" },
  json: { accept: "application/json", label: "JSON", suffix: "json" },
  parquet: { accept: "application/vnd.apache.parquet", label: "Parquet", suffix: "parquet" },
};

const segment = encodeURIComponent;
/** A row id, or a key as a JSON array: an escape of the URL does not keep its slashes apart from those of the path. */
const rowSegment = (row) => segment(String(row).replaceAll("/", "\\u002f"));

export const tables = (signal) => get("/v1/tables", signal).then(({ tables: found }) => ({ tables: found.map(tableOf) }));
export const table = (name, { minVersion = null, signal } = {}) =>
  get(`/v1/tables/${segment(name)}${minVersion ? `?min_version=${minVersion}` : ""}`, signal).then(tableOf);
/** What is known of a table's columns without reading a row: {rows, current, columns: [{name, min, max, nulls, nans, bins, values}]}. */
export const statistics = (name, version, signal) => get(`/v1/tables/${segment(name)}/statistics${version ? `?version=${version}` : ""}`, signal);
/** The blocks in the columns that the shared timeline reads. */
export const timeline = (name, signal) => get(`/v1/tables/${segment(name)}/timeline`, signal);
/** Versions before `before`, newest first: {entries, more}. */
export const history = (name, { before = null, limit = 200, signal } = {}) =>
  get(`/v1/tables/${segment(name)}/history?${new URLSearchParams({ limit, ...(before === null ? {} : { before }) })}`, signal);
export const diff = (name, from, to, signal) => get(`/v1/tables/${segment(name)}/diff?${new URLSearchParams({ from, to })}`, signal);
/** The changes of the versions after `after`, once there are some or half a minute has passed: {until, body}; `body` is a Response. */
export const changes = async (name, { after, signal }) => {
  const body = await call(`/v1/tables/${segment(name)}/changes?${new URLSearchParams({ after, wait: "30s" })}`, { signal }, FORMS.arrow.accept);
  return { until: Number(body.headers.get("x-blockstore-until")), body };
};
/** A page of jobs, newest first: {jobs, next}; `next` is the `before` of the page after it, or null. */
export const jobs = ({ limit, before = null }, signal) =>
  get(`/v1/jobs?${new URLSearchParams({ limit, ...(before === null ? {} : { before }) })}`, signal).then(({ jobs: found, next }) => ({ jobs: found.map(jobOf), next: next ?? null }));
export const job = (id, signal) => get(`/v1/jobs/${segment(id)}`, signal).then(jobOf);
export const cancelJob = (id) => call(`/v1/jobs/${segment(id)}`, { method: "DELETE" }).then(json);
export const jobResult = (id, signal) => call(`/v1/jobs/${segment(id)}/result`, { signal });
/** The running queries that the caller may see, the oldest first: {queries: [{id, by, own, door, sql, began, seconds, rows, bytes, state}]}. */
export const queries = (signal) => get("/v1/queries", signal);
export const cancelQuery = (id) => call(`/v1/queries/${segment(id)}`, { method: "DELETE" }).then(json);
export const queryJob = (sql, travel, form) =>
  call("/v1/jobs", posted({ kind: "query", sql, format: form, ...jobTravelling(travel) })).then(json);

/** Run SQL; resolves to a Response whose body streams. `minVersions`: {table: the least version to read of it}. */
export const query = (sql, { travel = {}, limit = null, form = "arrow", minVersions = {}, signal } = {}) => {
  const least = Object.keys(minVersions).length && !Object.keys(travel).length ? { min_version: minVersions } : {};
  return call("/v1/query", { ...posted({ sql, ...travelling(travel), ...least, ...(limit === null ? {} : { limit }) }), signal }, FORMS[form].accept);
};

/** Which blocks of each table a query would read, and what leaves the others out; no row is read for it. */
export const picture = (sql, travel, signal) => call("/v1/explain", { ...posted({ sql, ...travelling(travel) }), signal }).then(json).then(({ tables: found }) => found);

const EXPLAIN = "EXPLAIN ";

/** The numbers of EXPLAIN by what they count, as a Map. An error has its place in `sql`. */
export async function explain(sql, signal) {
  try {
    const rows = await query(EXPLAIN + sql, { form: "json", signal }).then(json);
    return new Map(rows.map(({ what, number }) => [what, Number(number)]));
  } catch (error) {
    const at = error.detail?.position;
    if (at?.line !== 1) throw error;
    const column = at.column - EXPLAIN.length;
    throw new GatewayError(error.message.replace(`line 1, column ${at.column}`, `line 1, column ${column}`), { ...error, detail: { ...error.detail, position: { line: 1, column } } });
  }
}

/** The versions that a result was made from: {name: version}. */
export function versionsOf(response) {
  try { return JSON.parse(response.headers.get("x-blockstore-versions") ?? "{}"); } catch { return {}; }
}

/** The caller of the token: {name, scopes, tables, auth}. */
export const whoami = () => get("/v1/whoami");

const ORDERED = 1_000_000;
const WHERE = "WHERE (";

/** The first rows of a table that meet a condition; with ids and versions in front, and in their order, if its rows have them.
 *  Rows of a table of more than a million come as they are stored: to put them in order would read all of them. `by`, {column,
 *  descending}, is an order that somebody chose. */
export function rowsOf({ name, rows, row_ids: ids, key }, { where = "", by = null, limit, minVersion = null, signal } = {}) {
  const hasIdentity = ids || key.length > 0;
  const column = (of) => `${inQuotes(name)}.${inQuotes(of)}`;
  const chosen = by ? [`${column(by.column)}${by.descending ? " DESC" : ""} NULLS LAST`] : [];
  const order = [...chosen, ...(rows > ORDERED ? [] : (ids ? ["_row_id"] : key).map(column))].join(", ");
  const sql = [`SELECT * FROM ${inQuotes(name)}`, where.trim() ? `${WHERE}${where}\n)` : "", order ? `ORDER BY ${order}` : ""].filter(Boolean).join("\n");
  const body = { sql, limit, row_ids: hasIdentity, ...(minVersion === null ? {} : { min_version: { [name]: minVersion } }) };
  return call("/v1/query", { ...posted(body), signal }, FORMS.arrow.accept).catch((error) => { throw ofPart(error, where, { line: 2, before: WHERE }); });
}

/** How often each value of a column occurs in the rows that meet a condition, the most frequent first. */
export function countsOf(name, column, { where = "", limit, minVersion, signal }) {
  const sql = [`SELECT ${inQuotes(column)}, count(*) FROM ${inQuotes(name)}`, where.trim() ? `${WHERE}${where}\n)` : "", "GROUP BY 1", "ORDER BY 2 DESC, 1"].filter(Boolean).join("\n");
  return query(sql, { limit, minVersions: { [name]: minVersion }, signal }).catch((error) => { throw ofPart(error, where, { line: 2, before: WHERE }); });
}

/** The versions of a row that are kept, newest first; `row` is its id, or its key as a JSON array. */
export const rowHistory = (name, row, { minVersion = null, signal } = {}) =>
  call(`/v1/tables/${segment(name)}/rows/${rowSegment(row)}/history${minVersion === null ? "" : `?min_version=${minVersion}`}`, { signal })
    .then((response) => response.text()).then((text) => parseExact(text).rows);

/** Each change is a job that happens once for a key of `newKey`, however often it is sent; resolves to the job when it is done. */
export const createTable = (body, key) => changed("POST", "/v1/tables", JSON.stringify(body), key);
export const alterTable = (name, body, key) => changed("PATCH", `/v1/tables/${segment(name)}`, JSON.stringify(body), key);
export const dropTable = (name, key) => changed("DELETE", `/v1/tables/${segment(name)}`, null, key);
export const undropTable = (name, key) => changed("POST", `/v1/tables/${segment(name)}/undrop`, null, key);
/** One statement, or one transaction; `onJob(id)` is called as soon as its job is known. */
export const statement = (sql, key, onJob) => changed("POST", "/v1/statements?wait=1", JSON.stringify({ sql }), key, onJob);
/** One partial row set; `body` is its JSON. */
export const changeRows = (name, body, key) => changed("PATCH", `/v1/tables/${segment(name)}/rows`, body, key);

/** Upload a file for a cell; resolves to its handle. */
export const uploadFile = (name, file) =>
  call(`/v1/tables/${segment(name)}/files?${new URLSearchParams({ name: file.name })}`, { method: "POST", headers: { "Content-Type": file.type || "application/octet-stream" }, body: file }).then(json);
/** The file that a cell names, as a Response whose body streams. */
export const fileOf = (name, row, column, version) =>
  call(`/v1/tables/${segment(name)}/rows/${rowSegment(row)}/files/${segment(column)}?${new URLSearchParams({ version })}`, {}, "*/*");

export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const TRIES = 3;
const AGAIN_MS = 1_000;

async function changed(method, path, body, key, onJob = () => {}) {
  const headers = { "Idempotency-Key": key, ...(body === null ? {} : { "Content-Type": "application/json" }) };
  for (let attempt = 1; ; attempt += 1) {
    try {
      let found = jobOf(await call(path, { method, headers, body }).then(json));
      onJob(found.id);
      while (!found.over) {
        await pause(AGAIN_MS);
        found = await job(found.id);
      }
      if (!found.ok) throw found.error ?? new GatewayError(`The change is ${found.state}: nothing was written.`);
      return found;
    } catch (error) {
      // The same key makes a repetition harmless: a change whose response was lost is found done.
      if (attempt === TRIES || !(error.lost || error.status === 429)) throw error;
      await pause(AGAIN_MS * attempt);
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Upload a file to a table, with `onProgress(sent, total)`. Returns {promise, abort}. */
export function upload(name, file, { form, onProgress }) {
  const request = new XMLHttpRequest();
  const promise = new Promise((resolve, reject) => {
    request.open("POST", `/v1/jobs?${new URLSearchParams({ table: name })}`);
    for (const [key, value] of Object.entries(identity())) request.setRequestHeader(key, value);
    request.setRequestHeader("Content-Type", FORMS[form].accept);
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded, event.total));
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve(jobOf(JSON.parse(request.responseText)));
      else reject(fromText(request.responseText, request.status, (header) => request.getResponseHeader(header)));
    });
    request.addEventListener("error", () => reject(unreachable()));
    request.addEventListener("abort", () => reject(new DOMException("The upload was stopped.", "AbortError")));
    request.send(file);
  });
  return { promise, abort: () => request.abort() };
}

// {} is now; else one of version, versions (one per table), as_of, tag.
const travelling = ({ versions, ...travel }) => (versions ? { version: versions } : travel);

// A job reads one version of one table, or all tables at a time or now.
function jobTravelling({ versions, ...travel }) {
  const found = Object.values(versions ?? {});
  return found.length === 1 ? { version: found[0] } : travel;
}

const get = (path, signal) => call(path, { signal }).then(json);

async function json(response) {
  if (response.status === 204) return {};
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new GatewayError("The gateway's response broke off or is not JSON: try again.", { status: response.status, lost: true });
  }
}

const posted = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

function identity() {
  const value = token();
  return value ? { Authorization: `Bearer ${value}` } : {};
}

async function call(path, options = {}, accept = "application/json") {
  let response;
  const sent = identity();
  const began = performance.now();
  try {
    response = await fetch(path, {
      ...options,
      headers: { Accept: accept, ...sent, ...options.headers },
      credentials: "omit", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (!response.ok) {
    const error = await errorOf(response);
    // A refusal of the token before says nothing of this one.
    if (error.status === 401 && sent.Authorization === identity().Authorization) document.dispatchEvent(new CustomEvent("blockstore:unauthorised", { detail: { message: error.message, began } }));
    throw error;
  }
  return response;
}
