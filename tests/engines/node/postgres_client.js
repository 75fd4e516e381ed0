// What the users of node-postgres do first, against the gateway's Postgres door. Each step asserts
// what it finds.
//
//     node postgres_client.js PORT TOKEN

"use strict";

const assert = require("node:assert/strict");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");

const [port, token] = process.argv.slice(2);
const where = { host: "127.0.0.1", port: Number(port), user: "me", password: token, database: "lake" };
const SLOW = "SELECT count(*) FROM range(100_000_000_000) t(i) WHERE i % 7 = 3";
const MILLION = "SELECT i AS n, 'row ' || i AS s FROM range(1_000_000) t(i)";
const VALUES =
  "SELECT 1.5::decimal(10,2) AS d, [1,2,NULL] AS l, true AS b, NULL AS z, 'a'::BLOB AS raw, " +
  "0.1::double AS f, ['x','y z', NULL] AS t, 9007199254740993 AS big, {'a': 1} AS doc, " +
  "timestamptz '2026-01-01 00:00:05Z' AS at";

async function reads(client) {
  const tables = await client.query(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1", ["public"]);
  assert.deepEqual(tables.rows.map((row) => row.table_name), ["flights", "people", "salaries"]);
  const columns = await client.query(
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns " +
    "WHERE table_name = $1 ORDER BY ordinal_position", ["people"]);
  assert.deepEqual(columns.rows.map(Object.values), [
    ["id", "bigint", "NO"], ["name", "text", "YES"], ["ok", "boolean", "YES"], ["raw", "bytea", "YES"],
  ]);
  const query = { name: "one", text: "SELECT n, s, time FROM flights WHERE n = $1 AND s = $2" };
  for (const n of [5, 6, 5]) {
    const { rows } = await client.query({ ...query, values: [n, `row ${n}`] });
    assert.deepEqual(rows, [{ n: String(n), s: `row ${n}`, time: new Date(Date.UTC(2026, 0, 1, 0, 0, n)) }]);
  }
  const [values] = (await client.query(VALUES)).rows;
  assert.deepEqual(values, {
    d: "1.50", l: [1, 2, null], b: true, z: null, raw: Buffer.from("a"), f: 0.1, t: ["x", "y z", null],
    big: "9007199254740993", doc: { a: 1 }, at: new Date(Date.UTC(2026, 0, 1, 0, 0, 5)),
  });
  const given = [[1, 2, null], new Date(0), Buffer.from([0, 255]), null, true];
  const sent = await client.query(
    "SELECT $1::int[] AS l, $2::timestamptz AS at, $3::bytea AS raw, $4::text AS z, $5::bool AS b", given);
  assert.deepEqual(Object.values(sent.rows[0]), given);
  const none = await client.query("SELECT n, s FROM flights WHERE n < $1", [0]);
  assert.deepEqual([none.rowCount, none.fields.map((one) => one.dataTypeID)], [0, [20, 25]]);
}

async function fetches(client) {
  const all = await client.query({ text: MILLION, rowMode: "array" });
  assert.equal(all.rowCount, 1_000_000);
  assert.deepEqual(all.rows[999_999], ["999999", "row 999999"]);
  const cursor = client.query(new Cursor(MILLION));
  let count = 0;
  for (;;) {
    const rows = await cursor.read(50_000);
    count += rows.length;
    if (!rows.length || count >= 500_000) break;
  }
  await cursor.close();
  assert.equal(count, 500_000);
}

async function fails(client) {
  await assert.rejects(client.query("SELECT nope FROM flights"), (error) => {
    assert.deepEqual([error.code, error.position], ["42703", "8"]);
    return /Referenced column "nope" not found/.test(error.message);
  });
  await assert.rejects(client.query("SELECT * FROM flihgts WHERE n = $1", [1]), /no table flihgts/);
  const stranger = new Client({ ...where, password: "bsk_unknown" });
  await assert.rejects(stranger.connect(), { code: "28P01" });
}

async function cancels(client) {
  const slow = client.query({ text: SLOW });
  setTimeout(() => {
    const other = new Client(where);
    // What the library itself sends to cancel: the number and the key of this connection.
    other.connection.on("connect", () => other.connection.cancel(client.processID, client.secretKey));
    other.connection.on("error", () => {});
    other.connection.connect(where.port, where.host);
  }, 500);
  await assert.rejects(slow, { code: "57014" });
  assert.deepEqual((await client.query("SELECT 1 AS one")).rows, [{ one: 1 }]);
}

async function writes(client) {
  const added = await client.query("INSERT INTO people (id, name, ok, raw) VALUES ($1, $2, $3, $4)",
    [51, "é", true, Buffer.from([0])]);
  assert.equal(added.rowCount, 1);
  await client.query("BEGIN");
  await client.query("UPDATE people SET name = $1 WHERE id = $2", ["lost", 51]);
  await client.query("ROLLBACK");
  const found = await client.query("SELECT name, ok, raw FROM people WHERE id = 51");
  assert.deepEqual(found.rows, [{ name: "é", ok: true, raw: Buffer.from([0]) }]);
}

async function main() {
  const client = new Client(where);
  await client.connect();
  for (const act of [reads, fetches, fails, cancels, writes]) await act(client);
  await client.end();
  const pool = new Pool({ ...where, max: 4 });
  const found = await Promise.all(
    [...Array(8).keys()].map((n) => pool.query("SELECT $1::int AS n", [n])));
  assert.deepEqual(found.map((one) => one.rows[0].n), [...Array(8).keys()]);
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
