// The names of files that are downloaded: that of a saved query, else those of the tables that were read, else the first words of the query.

import { savedName } from "./saved.js";

const MOST_TABLES = 3;
const LONGEST = 60;
const LONGEST_QUERY = 40;

/** The name of a file with the rows of a query; `tables` are the names of those that it read, as far as they are known. */
export function fileName(sql, tables, suffix) {
  return `${baseName(sql, tables)}.${suffix}`;
}

/** The same without a suffix. */
export function baseName(sql, tables) {
  const named = tables.slice(0, MOST_TABLES).map(plain).filter(Boolean).join("-");
  return cut(plain(savedName(sql) ?? "")) || cut(named) || cut(plain(sql.replace(/--.*$|\/\*[^]*?\*\//gm, " ").toLowerCase()), LONGEST_QUERY) || "query";
}

// Letters, digits and what no system of files refuses. A name never begins with a dot.
const plain = (text) => text.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "");

const cut = (text, most = LONGEST) => Array.from(text).slice(0, most).join("").replace(/[-.]+$/, "");
