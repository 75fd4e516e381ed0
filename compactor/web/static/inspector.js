// One block: first what the timeline has of it, then its meta.json.

import { copyButton, fill, h } from "../static/shared/elements.js";
import { bytes, count, counted, span, streamName, time } from "../static/shared/format.js";

const find = (id) => document.getElementById(id);
let wanted = null;

export function showHint() {
  wanted = null;
  fill(find("inspector"), h("h3", {}, "No block chosen"), h("p", { class: "muted" }, "Click a block, or move with the arrow keys on the timeline and press Enter. Drag across the timeline to zoom, double-click for all times."));
}

export async function showBlock(table, block) {
  wanted = block.ulid;
  const more = h("div", { class: "more", "aria-live": "polite" }, h("p", { class: "muted" }, "loading its meta.json …"));
  fill(find("inspector"), head(block), lines(known(block)), more, h("h3", {}, "On the command line"), command(`blockstore show ${quoted(table.url)} ${block.ulid}`));
  try {
    const answer = await fetch(`/api/timeline/block?table=${encodeURIComponent(table.name)}&ulid=${block.ulid}`);
    const detail = await answer.json();
    if (wanted !== block.ulid) return; // another was chosen meanwhile
    if (!answer.ok) throw new Error(detail.error);
    fill(more, ...described(detail));
  } catch (error) {
    if (wanted === block.ulid) fill(more, h("p", { class: "muted" }, String(error.message ?? error)));
  }
}

function head(block) {
  return h("div", { class: "inspector-head" },
    h("div", {}, h("h3", { class: "mono" }, block.ulid), h("p", {}, h("span", { class: `swatch ${block.state}` }), h("strong", {}, block.state), block.reason ? `: ${block.reason}` : "")),
    copyButton(block.ulid, "the ULID"));
}

function known(block) {
  return [
    ["time", span(block.low, block.high)], ["stream", streamName(block.stream)], ["level", block.level || "unknown"], ["rows", count(block.rows)],
    ["size", bytes(block.bytes)], ["sources", count(block.sources)], ["added in", block.version ? `version ${count(block.version)}` : "not in any version"],
    ["merges", block.noCompact ? "prevented by a no-compact mark" : "allowed"],
  ];
}

function described(detail) {
  const { meta } = detail;
  if (!meta) return [h("p", { class: "muted" }, "Its meta.json cannot be read.")];
  const list = (name, total, items) => (total ? h("details", {}, h("summary", {}, `${name} (${count(total)})`), h("ul", { class: "mono small", tabindex: "0" }, items, total > items.length ? h("li", {}, `and ${count(total - items.length)} more`) : null)) : null);
  const rest = [
    ["uploaded", meta.uploaded_time ? `${time(meta.uploaded_time)} UTC` : "unknown"], ["by", meta.producer || "unknown"],
    ["job", meta.job ? `${meta.job.app}, batch ${meta.job.batch}` : null], ["sorted by", meta.sort_by.join(", ") || "nothing"],
    ["revision", meta.revision || null], ["visible by", meta.visible_by], ["hidden writes", detail.excepted.length ? detail.excepted.join(", ") : null],
  ];
  return [
    lines(rest),
    list("Files", meta.file_count, meta.files.map((file) => h("li", {}, `${file.path} · ${counted(file.rows, "row")} · ${bytes(file.bytes)}`))),
    list("Sources", meta.source_count, meta.sources.map((ulid) => h("li", {}, ulid))),
    list("Parents", meta.parent_count, meta.parents.map((ulid) => h("li", {}, ulid))),
  ];
}

function lines(pairs) {
  return h("dl", {}, pairs.filter(([, value]) => value !== null).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** A command line that can be copied. */
export function command(text) {
  return h("div", { class: "command" }, h("code", {}, text), copyButton(text));
}

function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
