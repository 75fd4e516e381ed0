// Addresses inside the page: a link has everything in the fragment, which browsers send to no server.
//   #/console?sql=…&version=…|versions=flights:3,planes:7|as_of=…|tag=…
//   #/tables   #/tables/NAME   #/tables/NAME/rows?where=…&order=…&descending=true   #/tables/NAME/changes   #/tables/NAME/history?from=…&to=…   #/queries   #/jobs   #/upload?table=…

const VIEWS = new Set(["console", "tables", "queries", "jobs", "upload"]);
const TABS = new Set(["rows", "changes", "blocks", "history", "tags"]);

export function parse(hash) {
  const [path, query = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  const parts = path.split("/").filter(Boolean).map(decode);
  const options = Object.fromEntries(new URLSearchParams(query));
  const view = parts[0] ?? "console";
  if (!VIEWS.has(view) || (view !== "tables" && parts.length > 1)) return { view: "nowhere", address: hash, options };
  if (view === "tables" && parts.length > 1) {
    const tab = parts.length > 2 && TABS.has(parts.at(-1)) ? parts.at(-1) : "overview";
    const name = (tab === "overview" ? parts.slice(1) : parts.slice(1, -1)).join("/");
    return { view: "table", name, tab, options };
  }
  return { view, options };
}

export const toConsole = (sql, travel = {}) => `#/console?${new URLSearchParams({ sql, ...travelOptions(travel) })}`;
export const toTable = (name, tab = "", options = {}) => {
  const query = new URLSearchParams(options).toString();
  return `#/tables/${encodeURIComponent(name)}${tab ? `/${tab}` : ""}${query ? `?${query}` : ""}`;
};

/** The time of a link: {} is now; else one of version, versions, as_of, tag. */
export function travelOf(options) {
  if (options.versions) {
    const versions = {};
    for (const part of options.versions.split(",")) {
      const at = part.lastIndexOf(":");
      if (at > 0 && /^\d+$/.test(part.slice(at + 1))) versions[decode(part.slice(0, at))] = Number(part.slice(at + 1));
    }
    return Object.keys(versions).length ? { versions } : {};
  }
  if (/^\d+$/.test(options.version ?? "")) return { version: Number(options.version) };
  if (options.as_of) return { as_of: options.as_of };
  if (options.tag) return { tag: options.tag };
  return {};
}

function travelOptions(travel) {
  if (travel.versions) {
    return { versions: Object.entries(travel.versions).map(([name, version]) => `${encodeURIComponent(name)}:${version}`).join(",") };
  }
  return Object.fromEntries(Object.entries(travel).map(([key, value]) => [key, String(value)]));
}

function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}
