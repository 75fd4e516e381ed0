// The gateway's JSON as the shapes that all views use; no other module reads it.

import { GatewayError, wordsOf } from "./errors.js";
import { bytes, many } from "./format.js";

const OVER = new Set(["done", "failed", "cancelled"]);
const LEVELS = { ready: "good", loading: "busy", degraded: "warn", stale: "bad" };

/** A table: {name, status, level, error, version, rows, bytes, blocks, staleness_s, columns, labels, tags, sort_by, time_column, row_ids, key, restricted}. */
export function tableOf(found) {
  const status = String(found.status ?? "unknown");
  return { ...found, status, level: LEVELS[status] ?? "warn", tags: found.tags ?? {}, columns: found.columns ?? [], labels: found.labels ?? {}, sort_by: found.sort_by ?? [], row_ids: Boolean(found.row_ids), key: found.key ?? [] };
}

/** A job: {id, kind, table, sql, state, over, ok, progress: {share, text}, error, has_result, created, rows, record}. */
export function jobOf(found) {
  const state = String(found.state);
  const done = found.progress ?? {};
  const whole = done.bytes_total ?? 0;
  return {
    id: String(found.id), kind: String(found.kind), table: found.table ?? null, sql: found.sql ?? null, format: found.format ?? "",
    state, over: OVER.has(state), ok: state === "done",
    progress: {
      share: whole > 0 ? Math.min((done.bytes ?? 0) / whole, 1) : null,
      text: [done.rows ? many(done.rows, "row") : "", done.bytes ? bytes(done.bytes) : ""].filter(Boolean).join(", "),
    },
    error: found.error ? new GatewayError(wordsOf(found.error), { detail: found.error }) : null,
    has_result: Boolean(found.result), created: found.created ?? null,
    rows: (found.result ?? found.written ?? done).rows ?? null, version: found.written?.version ?? null, record: found,
  };
}
