"""A reader of Blockstore's tables, written from docs/format.md alone.

    python examples/independent_reader.py FOLDER [--version N | --tag T | --as-of MS | --list]

It uses Python's standard library and pyarrow, and no code of Blockstore. It prints state and rows
as JSON (tests/golden/vectors/README.md), or reports what is damaged and exits with 1. Its purpose
is to be read, and to prove the page. independent_index.py reads the index, independent_rows.py the
rows of blocks, independent_segments.py the hashes of segments; this part lists and covers.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from independent_index import DAMAGE, Folder, Json, Refused, check, parse, sha256
from independent_rows import chunks, current, identity_of, name_of, rows_of

ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
LETTERS = {one: at for at, one in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
HIDING = {"retention", "revert", "manual"}
REASONS = HIDING | {"superseded", "partial", "malformed"}
RESERVED = "_source|_row_id|_version|_deleted|_blockstore_.*|"
NO_TYPE = (
    r"large_|.*_view|halffloat|date64|dictionary|decimal(32|64|256)|null|run_end|.*\[0\]|extension"
)
LOST = "only an index could show it, and the table has none"
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))


def listed(folder: Folder, state: Json | None, now: int, modified: int | None) -> dict[str, Json]:
    """The blocks that a listing shows and the index does not contain.

    ``why`` is what is wrong with a block, or empty.
    """
    delay = "15m" if state is None else state["table"]["properties"]["sync_delay"]
    wait = sum(int(number) * UNITS[unit] for number, unit in re.findall("([0-9]+)([a-z]+)", delay))
    metas = {}
    for ulid in [
        key[:26] for key in sorted(folder.objects) if re.fullmatch(f"{ULID}/meta.json", key)
    ]:
        if state and (
            ulid in state["blocks"] or ulid in state["accounted"] or ulid <= (state["floor"] or "")
        ):
            continue
        meta: Json = {"sources": [ulid], "blockstore": {}, "why": "", "hidden": False}
        try:
            meta |= look_at(folder, ulid)
            meta["hidden"] = hides(folder, ulid, meta["blockstore"]["files"])
        except DAMAGE as error:
            meta["why"] = str(error)
        says, put = (
            meta["blockstore"],
            folder.objects[f"{ulid}/meta.json"].stat().st_mtime_ns // 10**6,
        )
        born = sum(LETTERS[one] << 5 * (9 - at) for at, one in enumerate(ulid[:10]))
        age = now - max(born, says.get("uploaded_time", 0), put if modified is None else modified)
        meta["ready"] = age >= wait or says.get("ignore_delay", False)
        if says.get("visible_by") == "index":
            meta["why"] = meta["why"] or LOST
        if state is None or says.get("visible_by") != "index":
            metas[ulid] = meta
    return metas


def look_at(folder: Folder, ulid: str) -> Json:
    """A block's meta.json, its sources and its schema."""
    meta = parse(folder.get(f"{ulid}/meta.json"), f"block {ulid}", "version")
    rows = [one["rows"] for one in chunks(meta)]
    says = meta["ulid"], meta["stats"]["numRows"], meta["stats"]["numChunks"]
    check(says == (ulid, sum(rows), len(rows)), f"block {ulid} contradicts itself")
    return meta | {
        "sources": folder.sources(meta),
        "schema": schema_of(meta["blockstore"]["schema"]),
    }


def hides(folder: Folder, ulid: str, files: list[Json]) -> bool:
    """Whether a block's mark hides it. Raises Refused for an impossible mark or file."""
    sizes = [folder.objects[f"{ulid}/{one['path']}"].stat().st_size for one in files]
    check(sizes == [one["bytes"] for one in files], f"the files of block {ulid}")
    if f"{ulid}/deletion-mark.json" not in folder.objects:
        return False
    mark = parse(folder.get(f"{ulid}/deletion-mark.json"), f"the mark of {ulid}", "version")
    check(mark["reason"] in REASONS, f"the mark of {ulid}")
    return mark["reason"] in HIDING


def choose(
    state: Json | None, metas: dict[str, Json]
) -> tuple[pa.Schema, dict[str, set[str]], set[str]]:
    """The columns to read, the sources to read of each listed block, and the blocks that are left
    out."""
    ready = {ulid: meta for ulid, meta in metas.items() if meta["ready"]}
    left_out = {ulid for ulid, meta in ready.items() if meta["why"]}
    shown = {ulid: meta for ulid, meta in ready.items() if not meta["why"] and not meta["hidden"]}
    columns = agreed(shown) if state is None else table_schema(state)
    past = tuple(map(schema_of, state["table"]["schemas"].values())) if state else ()
    left_out |= misfits(shown, columns, state is None, past)
    found = cover({ulid: meta for ulid, meta in ready.items() if ulid not in left_out})
    known, floor = (state["accounted"], state["floor"] or "") if state else (set(), "")
    new = {
        u: {one for one in sources if one > floor and one not in known}
        for u, sources in found.items()
    }
    held = known.union(*new.values())
    left_out = {
        u for u in left_out if any(one > floor and one not in held for one in metas[u]["sources"])
    }
    read = {ulid: sources for ulid, sources in new.items() if sources and ulid in shown}
    if state is None:
        columns = present(columns, [metas[ulid] for ulid in read])
    return columns, read, left_out


def misfits(
    metas: dict[str, Json], columns: pa.Schema, by_name: bool, past: tuple[pa.Schema, ...] = ()
) -> set[str]:
    """The blocks that cannot be read with these columns, and have none of the table's past
    schemas."""
    types = {name_of(field, by_name): field.type for field in columns}
    known = {field.name: field.type for field in columns} if by_name else None
    return {
        ulid
        for ulid, meta in metas.items()
        if (
            not any(meta["schema"].equals(one, check_metadata=True) for one in past)
            and not all(
                widens(field.type, types.get(name_of(field, by_name))) for field in meta["schema"]
            )
        )
        or (known is not None and contradicts(meta["schema"], known))
    }


def present(columns: pa.Schema, metas: list[Json]) -> pa.Schema:
    """The columns that some block has."""
    names = {name for meta in metas for name in meta["schema"].names}
    return pa.schema([field for field in columns if field.name in names])


def cover(blocks: dict[str, Json]) -> dict[str, set[str]]:
    """The exact cover: the sources to read of each block that is not superseded."""
    taken: dict[str, set[str]] = {}
    chosen, aside = {}, []
    says = {ulid: meta["blockstore"] for ulid, meta in blocks.items()}
    for ulid in sorted(
        blocks, key=lambda u: (-says[u].get("revision", 0), -len(blocks[u]["sources"]), u)
    ):
        stream = json.dumps(
            [says[ulid].get("labels", {}), says[ulid].get("resolution", 0)], sort_keys=True
        )
        before, sources = taken.setdefault(stream, set()), set(blocks[ulid]["sources"])
        if before & sources:
            aside.append((ulid, before, sources))
        else:
            chosen[ulid] = sources
            before |= sources
    for ulid, before, sources in aside:
        chosen[ulid] = sources - before
        before |= sources
    return chosen


def agreed(metas: dict[str, Json]) -> pa.Schema:
    """The columns of a table without an index."""
    merged: dict[str, pa.DataType] = {}
    for ulid in sorted(metas, key=lambda one: (metas[one]["sources"][0], one)):
        schema = metas[ulid]["schema"]
        if not contradicts(schema, merged):
            wider = [
                one
                for one in schema
                if one.name not in merged or widens(merged[one.name], one.type)
            ]
            merged |= {field.name: field.type for field in wider}
    return pa.schema(list(merged.items()))


def contradicts(schema: pa.Schema, merged: dict[str, pa.DataType]) -> bool:
    spelled = {name.lower(): name for name in merged}
    for field in schema:
        kind, known = field.type, merged.get(field.name, field.type)
        joins = (
            widens(kind, known) or widens(known, kind)
            if not pt.is_nested(kind)
            else kind.equals(known)
        )
        same = spelled.setdefault(field.name.lower(), field.name) == field.name
        if not joins or not same or re.fullmatch(RESERVED, field.name) or not is_type(kind):
            return True
    return not schema.names or len(set(schema.names)) < len(schema.names)


def is_type(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        sized = kind.num_fields and getattr(kind, "list_size", 1)
        return bool(sized) and all(is_type(kind.field(at).type) for at in range(kind.num_fields))
    return re.match(NO_TYPE, str(kind)) is None


def widens(old: pa.DataType, new: pa.DataType | None) -> bool:
    if new is None or old.equals(new):
        return new is not None
    if pt.is_integer(old) and pt.is_integer(new):
        signed = pt.is_signed_integer(new)
        return old.bit_width < new.bit_width and (signed or not pt.is_signed_integer(old))
    if pt.is_decimal(old) and pt.is_decimal(new):
        return old.scale == new.scale and old.precision <= new.precision
    if not pt.is_nested(old) or (old.id, old.num_fields) != (new.id, new.num_fields):
        return pt.is_float32(old) and pt.is_float64(new)
    inside = [(old.field(at), new.field(at)) for at in range(old.num_fields)]
    sizes = getattr(old, "list_size", 0) == getattr(new, "list_size", 0)
    return sizes and all(
        one.name == other.name and widens(one.type, other.type) for one, other in inside
    )


def table_schema(state: Json) -> pa.Schema:
    return schema_of(state["table"]["schemas"][str(state["table"]["schema_id"])])


def source_list(sources: list[str]) -> object:
    digest = sha256("\n".join(sources).encode())
    return sources if len(sources) <= 1_000 else {"count": len(sources), "sha256": digest}


def shown(state: Json) -> Json:
    """A state as JSON."""
    names = [
        "version",
        "time",
        "tags",
        "epochs",
        "batches",
        "horizon",
        "floor",
        "next_row_id",
        "void",
        "last",
    ]
    blocks = []
    for ulid, block in sorted(state["blocks"].items()):
        one = {
            "ulid": ulid,
            "level": block["meta"]["compaction"]["level"],
            "version": block["version"],
        }
        one |= {"first_row_id": block["first_row_id"], "sources": source_list(block["sources"])}
        blocks.append(one | {"excepted": sorted(block["excepted"])})
    others = state["accounted"].difference(
        *(block["sources"] for block in state["blocks"].values())
    )
    values = {
        "blocks": blocks,
        "accounted": source_list(sorted(others)),
        "labels": state["table"].get("labels", {}),
    }
    return {name: state[name] for name in names} | values | {"requires": sorted(state["requires"])}


def answer(
    path: str, listing: bool = False, now: int = 0, modified: int | None = None, **query: Any
) -> Json:
    """The state and the rows of one query. Raises Refused."""
    try:
        return read_all(Folder(path), listing, now, modified, query)
    except DAMAGE as error:
        raise (error if isinstance(error, Refused) else Refused("corrupt", error)) from error


def read_all(folder: Folder, listing: bool, now: int, modified: int | None, query: Json) -> Json:
    state = folder.state_at(**query) if folder.indexed else None
    by_name, table = state is None, state["table"] if state else {}
    columns, summary = (table_schema(state), shown(state)) if state else (None, {"version": None})
    blocks = {ulid: dict(block) for ulid, block in state["blocks"].items()} if state else {}
    for block in blocks.values():
        block["schema"] = schema_of(table["schemas"][str(block["meta"]["blockstore"]["schema_id"])])
    labels = set(state["table"]["labels"]) if state else set()
    if listing or by_name:
        metas = listed(folder, state, now, modified)
        columns, read, left_out = choose(state, metas)
        says = [metas[ulid] for ulid in read]
        if by_name and not says:
            # Without blocks to read, all intact ones define the table, young and hidden ones too.
            intact = {ulid: meta for ulid, meta in metas.items() if not meta["why"]}
            says = [intact[u] for u in intact.keys() - misfits(intact, agreed(intact), True)]
            columns = present(agreed(intact), says)
        lost = by_name and not listing and any(meta["why"] == LOST for meta in metas.values())
        check(len(columns) and not lost, f"without an index: {sorted(left_out) or 'nothing'}")
        for ulid, only in read.items():
            own = {name: metas[ulid][name] for name in ("sources", "schema")} | {
                "meta": metas[ulid]
            }
            hidden = {source for source in own["sources"] if source not in only}
            blocks[ulid] = own | {"excepted": hidden, "version": None, "first_row_id": None}
        if by_name:
            newest = sorted(says, key=lambda meta: meta["ulid"], reverse=True)
            table = next(
                (one["blockstore"] for one in newest if ordered(one["blockstore"], columns)), {}
            )
            labels = labels.union(*(meta["blockstore"].get("labels", ()) for meta in says))
        chosen = [
            {"ulid": ulid, "sources": source_list(sorted(read[ulid]))} for ulid in sorted(read)
        ]
        summary = {"version": summary["version"], "left_out": sorted(left_out), "listed": chosen}
    labels = labels.union(
        *(block["meta"]["blockstore"].get("labels", ()) for block in blocks.values())
    )
    taken = {name.lower() for name in columns.names}
    named = sorted(name for name in labels if name.lower() not in taken)
    identity = identity_of(table) if state else []
    rows = current(
        [
            row
            for block in blocks.values()
            for row in rows_of(folder, block, columns, by_name, named, identity)
        ],
        identity,
    )
    summary["columns"] = [
        [one.name, str(one.type), None if by_name else name_of(one, False)] for one in columns
    ]
    summary |= {"time_column": table.get("time_column"), "sort_by": table.get("sort_by", [])}
    return {"state": summary, "rows": sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))}


def ordered(block: Json, columns: pa.Schema) -> bool:
    """Whether a block's time column and sort key fit the columns of a table without an index."""
    at, keys = block.get("time_column"), block.get("sort_by", [])
    timed = at is None or (
        at in columns.names and re.match("timestamp|date", str(columns.field(at).type))
    )
    return timed and all(
        key in columns.names and not pt.is_nested(columns.field(key).type) for key in keys
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--version", type=int)
    one.add_argument("--tag")
    one.add_argument("--as-of", type=int)
    one.add_argument("--list", action="store_true", dest="listing")
    said = vars(parser.parse_args())
    try:
        found = answer(said.pop("folder"), now=time.time_ns() // 10**6, **said)
        print(json.dumps(found, indent=1, ensure_ascii=False))
    except Refused as error:
        sys.exit(": ".join(map(str, error.args)))


if __name__ == "__main__":
    main()
