"""The half of the independent reader that reads the index: objects, entries, checkpoints, and the
states that they make.

It was written from docs/format.md alone, with Python's standard library and pyarrow, and uses no
code of Blockstore. It keeps everything in memory, folds from the oldest version on, and assumes
that no process writes meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
from independent_leaves import rows_of, sources_of

Json = dict[str, Any]

FEATURES = {"chain", "columns", "rows", "tree", "uploads"}
COLUMNS = [
    "ulid",
    "min_time",
    "max_time",
    "rows",
    "bytes",
    "level",
    "revision",
    "resolution",
    "stream",
    "schema_id",
    "visible_by",
    "own",
    "version",
    "first_row_id",
    "excepted",
    "meta",
    "sources",
]
NOTHING: Json = {
    "version": 0,
    "time": 0,
    "next_row_id": 0,
    "horizon": None,
    "floor": None,
    "void": [],
    "requires": set(),
    **{name: {} for name in ("table", "blocks", "tags", "epochs", "batches", "last")},
    "accounted": set(),
}


class Refused(Exception):
    """A reader must stop here: the class of the error, and its subject."""


DAMAGE = (Refused, pa.ArrowException, OSError, LookupError, TypeError, ValueError, struct.error)
"""The errors raised where stored bytes differ from the page."""


def check(fits: object, what: object, kind: str = "corrupt") -> None:
    if not fits:
        raise Refused(kind, what)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def unique(pairs: list[tuple[str, Any]]) -> Json:
    check(len(dict(pairs)) == len(pairs), "a key appears twice")
    return dict(pairs)


def parse(data: bytes, name: str, version: str) -> Json:
    """A JSON object with its seal checked; ``version`` is the field with the format version."""
    if data.startswith(b'{"check":"'):
        check(
            data[74:76] == b'",' and sha256(data[76:]).encode() == data[10:74], f"{name}: its seal"
        )
    found: Json = json.loads(data.decode(), object_pairs_hook=unique)
    check(isinstance(found, dict), f"{name} is not an object")
    unknown = {one.partition("/")[0] for one in found.get("requires") or ()} - FEATURES
    check(
        found[version] == 1 and not unknown,
        f"{name}: {found[version]} {unknown or ''}",
        "newer-format",
    )
    return found


class Folder:
    """A table's objects, and the states of its index by version."""

    def __init__(self, path: str) -> None:
        found = (one for one in Path(path).rglob("*") if one.is_file())
        self.objects = {one.relative_to(path).as_posix(): one for one in found}
        self.entries = entries = self.numbers("index/(.{20}).json")
        checkpoints = self.numbers("index/checkpoints/(.{20}).parquet")
        self.states: dict[int, Json] = {}
        self.indexed = bool(entries) or "gc/index.boundary" in self.objects
        if not self.indexed:
            return
        self.boundary = self.read_boundary()
        kept = [n for n in entries if n > self.boundary] + [
            n for n in checkpoints if n >= self.boundary > 0
        ]
        check(kept, "no entry is above the boundary", "corrupt" if self.boundary else "not-found")
        state, self.latest = NOTHING, max(kept)
        for base in [n for n in checkpoints if n >= self.boundary > 0]:
            try:
                state = self.checkpoint(base)
                check(base == self.boundary or self.is_after(state, base), "another history's")
                break
            except DAMAGE as error:
                check(error.args[0] != "newer-format", *error.args[1:], kind="newer-format")
        check(state["version"] >= self.boundary, "no checkpoint is proven")
        for number in range(state["version"] + 1, self.latest + 1):
            self.states[number] = state = self.fold(state, *self.entry(number))

    def get(self, key: str, kind: str = "corrupt") -> bytes:
        check(key in self.objects, f"{key} is missing", kind)
        return self.objects[key].read_bytes()

    def numbers(self, name: str) -> list[int]:
        found = [
            re.fullmatch(name.replace(".{", "[0-9]{").replace(".", r"\."), key)
            for key in self.objects
        ]
        return sorted(int(one[1]) for one in found if one)

    def read_boundary(self) -> int:
        text = self.get("gc/index.boundary", "boundary-lost")
        check(re.fullmatch(rb"[0-9]{1,20}", text) and int(text) < 2**64, text, "boundary-lost")
        padded = text.startswith(b"0") and len(text) >= 18
        check(
            not padded or (len(text) - sum(map(int, text.decode()))) % 3 == 0, text, "boundary-lost"
        )
        return int(text)

    def entry(self, number: int) -> tuple[bytes, Json]:
        data = self.get(f"index/{number:020d}.json")
        found = parse(data, f"entry {number}", "format")
        check(found["id"] == number, f"entry {number} has id {found['id']}")
        return data, found

    def is_after(self, state: Json, number: int) -> bool:
        """Whether a checkpoint's state ends with the entry of its version."""
        (data, entry), last = self.entry(number), state["last"]
        return (last["commit"], last.get("sha256", sha256(data))) == (entry["commit"], sha256(data))

    def state_at(
        self, version: int | None = None, tag: str | None = None, as_of: int | None = None
    ) -> Json:
        """The requested state."""
        tags = self.states[self.latest]["tags"]
        if tag is not None:
            check(tag in tags, f"tag {tag}", "not-found")
            version = tags[tag]
        if as_of is not None:
            old = [number for number, state in self.states.items() if state["time"] <= as_of]
            version = max(old, default=self.boundary)
            check(version, f"no version existed at {as_of}", "not-found")
        number = self.latest if version is None else version
        check(1 <= number <= self.latest, f"version {number}", "not-found")
        if number > self.boundary:
            return self.states[number]
        check(number in tags.values(), f"version {number}", "version-expired")
        state = self.checkpoint(number)
        check(as_of is None or state["time"] <= as_of, f"the version at {as_of}", "version-expired")
        return state

    def checkpoint(self, version: int) -> Json:
        """The state in a checkpoint, proven by its content; for an earlier release by counts and
        names."""
        file = opened(self.get(f"index/checkpoints/{version:020d}.parquet"))
        meta, table = file.metadata, file.read(use_threads=False)
        text = meta.metadata[b"blockstore"]
        check(
            sha256(text).encode() == meta.metadata[b"blockstore.sha256"],
            f"the JSON of checkpoint {version}",
        )
        rest = parse(text, f"checkpoint {version}", "format")
        groups = sum(meta.row_group(number).num_rows for number in range(file.num_row_groups))
        counts = {len(table), meta.num_rows, groups, rest.get("blocks", len(table))}
        fits = rest["content"] == content(table) if "content" in rest else self.is_named(version)
        check(
            fits and len(counts) == 1 and rest["version"] == version,
            f"checkpoint {version} is not proven",
        )
        rows, held = table.to_pylist(), len(table)
        accounted = set(re.findall(".{26}", rest["accounted"]))
        if "tree" in rest:
            check(self.is_whole(rest["tree"], version), f"checkpoint {version} is not whole")
            rows = rows_of(rest["tree"], COLUMNS, self.get)
            accounted = set(sources_of(rest["tree"], self.get))
            held = len(rows)
        blocks = {}
        for row in rows:
            block = {"meta": json.loads(row["meta"]), "sources": row["sources"] or [row["ulid"]]}
            block |= {"version": row["version"], "first_row_id": row["first_row_id"]}
            blocks[row["ulid"]] = block | {"excepted": set(row["excepted"] or ())}
        check(
            list(blocks) == sorted(blocks) and len(blocks) == held,
            f"checkpoint {version} is not sorted",
        )
        accounted = accounted.union(*(one["sources"] for one in blocks.values()))
        last = rest.get("last") or {"commit": rest["commits"]["ids"][-26:]}
        batches = {app: one["ranges"] for app, one in rest["batches"].items()}
        values = {
            "void": rest.get("void", []),
            "requires": set(rest["requires"]),
            "batches": batches,
            "last": last,
        }
        return rest | values | {"blocks": blocks, "accounted": accounted}

    def is_whole(self, tree: Json, version: int) -> bool:
        """Whether no collector removes a leaf of a root before the boundary has passed it."""
        if version <= self.boundary or tree["base"] >= self.boundary:
            return True
        leaves = [tuple(one[:2]) for kind in ("blocks", "sources") for one in tree[kind]]
        file = opened(self.get(f"index/checkpoints/{self.boundary:020d}.parquet"))
        at = json.loads(file.metadata.metadata[b"blockstore"]).get("tree", {})
        kept = {tuple(one[:2]) for kind in at if kind != "base" for one in at[kind]}
        return all(one[1] >= self.boundary or one in kept for one in leaves)

    def is_named(self, version: int) -> bool:
        """Whether the hint and later entries that name a checkpoint of this version name these
        bytes."""
        naming = [self.entry(number)[1] for number in self.entries if number > self.boundary]
        try:
            naming.append(parse(self.get("index/hint.json"), "the hint", "format"))
        except DAMAGE:
            pass  # a damaged hint is ignored
        data = self.get(f"index/checkpoints/{version:020d}.parquet")
        mine = {"id": version, "bytes": len(data), "sha256": sha256(data)}
        names = [
            one
            for entry in naming
            if isinstance(one := entry.get("checkpoint"), dict) and one["id"] == version
        ]
        return not names or mine in names

    def fold(self, before: Json, data: bytes, entry: Json) -> Json:
        """The state after an entry."""
        name, last, prev = f"entry {entry['id']}", before["last"], entry.get("prev")
        state = before | {"version": entry["id"], "last": {"commit": entry["commit"]}}
        if "chain" in last or prev or "chain/0.2" in entry.get("requires", ()):
            both = bytes.fromhex(last.get("chain", "00" * 32)) + hashlib.sha256(data).digest()
            state["last"] |= {"sha256": sha256(data), "chain": sha256(both)}
        if ("chain" in last) if prev is None else (prev != last):
            check(before["version"], f"{name} has no entry below it")
            return state | {"void": [*before["void"], entry["id"]][-1000:]}
        state["time"] = max(before["time"], entry["time"])
        state["table"] = entry.get("table") or before["table"]
        blocks = dict(before["blocks"])
        removed = {ulid: blocks.pop(ulid) for ulid in entry.get("remove", ())}
        freed: set[str] = set().union(*(block["sources"] for block in removed.values()))
        live: set[str] = set().union(*(block["sources"] for block in blocks.values()))
        known = live if entry["operation"] == "restore" else before["accounted"] - freed | live
        for meta in entry.get("add", ()):
            sources = self.sources(meta, removed)
            check(
                meta["ulid"] not in blocks and known.isdisjoint(sources),
                f"{name} adds rows that the table contains",
            )
            said = meta.get("committed") or {
                "version": entry["id"],
                "first_row_id": state["next_row_id"],
            }
            state["next_row_id"] += 0 if meta.get("committed") else meta["stats"]["numRows"]
            blocks[meta["ulid"]] = {"meta": meta, "sources": sources, "excepted": set(), **said}
            live, known = live.union(sources), known.union(sources)
        for ulid, sources in entry.get("except", {}).items():
            check(set(sources) <= set(blocks[ulid]["sources"]), f"{name} excepts unknown sources")
            blocks[ulid] = blocks[ulid] | {"excepted": blocks[ulid]["excepted"].union(sources)}
        accounted = before["accounted"].union(live, entry.get("account", ()))
        kept = live.union(entry.get("keep", ()))
        accounted = {one for one in accounted if one > entry.get("floor", "") or one in kept}
        tags = before["tags"] | entry.get("tags", {})
        tags = {tag: version for tag, version in tags.items() if version is not None}
        state |= {mark: entry.get(mark) or before[mark] for mark in ("horizon", "floor")}
        state["requires"] = before["requires"].union(entry.get("requires", ()))
        state["epochs"] = before["epochs"] | entry.get("epochs", {})
        state["batches"] = batches_after(
            before["batches"], entry, "uploads/0.2" in state["requires"]
        )
        return state | {"blocks": blocks, "accounted": accounted, "tags": tags}

    def sources(self, meta: Json, removed: Json | None = None) -> list[str]:
        """The sources of a block: from its meta, from its file, or those of the removed parents."""
        ulid, said = meta["ulid"], meta["compaction"].get("sources")
        if isinstance(said, dict):
            found = (
                opened(self.get(f"{ulid}/sources.parquet"))
                .read(use_threads=False)["source"]
                .to_pylist()
            )
            expected = said["count"], said.get("sha256") or said["hash"]
            check(
                expected == (len(found), sha256("\n".join(found).encode())),
                f"the list of sources of {ulid}",
            )
            said = found
        elif said is None and removed is not None:
            parents = [
                removed[one["ulid"]]["sources"] for one in meta["compaction"].get("parents") or ()
            ]
            own = {ulid} if meta["blockstore"].get("own", True) or not parents else set()
            said = sorted(own.union(*parents))
        check(said and said == sorted(set(said)), f"the sources of {ulid}")
        return list(said)


def opened(data: bytes) -> pq.ParquetFile:
    """A file to read without threads: an Arrow thread that still works when the process ends may
    abort it."""
    return pq.ParquetFile(pa.BufferReader(data))


def content(table: pa.Table) -> str:
    """The digest of a checkpoint's rows."""

    def numbers(values: list[int]) -> bytes:
        return struct.pack(f"<{len(values)}q", *values)

    def parts(values: list[Any], kind: pa.DataType) -> list[bytes]:
        if pt.is_list(kind):
            counts = [-1 if one is None else len(one) for one in values]
            items = [item for one in values for item in one or ()]
            return [numbers(counts), *parts(items, kind.value_type)]
        if pt.is_boolean(kind) or pt.is_integer(kind):
            return [bytes(values) if pt.is_boolean(kind) else numbers(values)]
        texts = [one.encode() if isinstance(one, str) else one for one in values]
        return [numbers([len(one) for one in texts]), b"".join(texts)]

    columns = [table.column(name) for name in COLUMNS]
    each = [part for column in columns for part in parts(column.to_pylist(), column.type)]
    return sha256(b"".join(hashlib.sha256(part).digest() for part in each))


def batches_after(batches: Json, entry: Json, forgetting: bool) -> Json:
    """The batches of every application as ranges, both ends inclusive."""
    if entry.get("job"):
        app, batch = entry["job"]["app"], entry["job"]["batch"]
        ranges: list[list[int]] = []
        for low, high in sorted([*batches.get(app, ()), [batch, batch]]):
            if ranges and ranges[-1][1] == low - 1:
                ranges[-1] = [ranges[-1][0], high]
            else:
                ranges.append([low, high])
        batches = batches | {app: [[0, ranges[-1][1]]] if app.startswith("stream/") else ranges}
    floor = entry.get("floor") if forgetting else None
    uploads = {app: re.fullmatch("gateway/[^/]+/input-(.{26})", app) for app in batches}
    gone = {app for app, upload in uploads.items() if floor and upload and upload[1] <= floor}
    return {app: ranges for app, ranges in batches.items() if app not in gone}
