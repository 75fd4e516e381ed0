"""The page about the format says what the code reads: every JSON example on it is decoded, and
names are the code's."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.format.document import sealed
from blockstore.format.features import TREE
from blockstore.format.file_handle import decode_record
from blockstore.format.marks import (
    MarkReason,
    NoCompactReason,
    decode_deletion_mark,
    decode_no_compact_mark,
)
from blockstore.format.meta import decode
from blockstore.index.checkpoint import encode_checkpoint, encode_root
from blockstore.index.dropped import Dropped
from blockstore.index.entry import Operation, decode_entry
from blockstore.index.log import create
from blockstore.index.rows import BULK, FRAME
from blockstore.index.state import State
from blockstore.index.tree.leaf import Root
from blockstore.names import (
    checkpoint_key,
    entry_key,
    file_object_name,
    split_block_key,
    split_file_key,
)
from blockstore.world import World

PAGE = (Path(__file__).parent.parent.parent / "docs" / "format.md").read_text()
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(
            [("time", pa.timestamp("ms", "UTC")), ("origin", pa.string()), ("delay", pa.float64())],
            start=1,
        )
    ]
)


def examples(kind: str) -> list[dict]:
    found = re.findall(rf"^```json {kind}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    schema = base64.b64encode(SCHEMA.serialize().to_pybytes()).decode()
    filled = [
        text.replace("<Arrow schema, IPC message, base64>", schema).replace(
            "<64 hexadecimal digits>", "ab" * 32
        )
        for text in found
    ]
    assert filled
    return [json.loads(text) for text in filled]


def test_the_record_of_a_file_is_decoded() -> None:
    (value,) = examples("file")
    handle, key = decode_record(unchecked(value), file=value["id"])
    assert handle["name"] == value["name"]
    assert key == f"files/{value['id']}/{file_object_name(value['name'])}"
    assert split_file_key(key) == (value["id"], value["object"])


def unchecked(value: dict) -> bytes:
    """An example as JSON, with the seal that its bytes have here."""
    data = json.dumps({name: item for name, item in value.items() if name != "check"}).encode()
    return sealed(data) if "check" in value else data


def test_every_example_is_of_a_kind_that_is_tried_here() -> None:
    kinds = set(re.findall(r"^```json ?(\S*)", PAGE, flags=re.MULTILINE))
    assert kinds == {"meta", "deletion-mark", "no-compact-mark", "entry", "definition", "file"}


def test_the_meta_decodes() -> None:
    (value,) = examples("meta")
    meta = decode(unchecked(value), ulid=value["ulid"])
    assert (meta.rows, meta.job.batch if meta.job else None, meta.unknown) == (120_000, 17, b"")
    assert meta.files[0].columns["delay"].nans == 1


def test_the_marks_decode() -> None:
    (deletion,) = examples("deletion-mark")
    assert decode_deletion_mark(json.dumps(deletion).encode(), ulid=deletion["id"]).superseded_by
    (kept,) = examples("no-compact-mark")
    assert (
        decode_no_compact_mark(json.dumps(kept).encode(), ulid=kept["id"]).details
        == "under examination"
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_entries_decode(number: int) -> None:
    value = examples("entry")[number]
    entry = decode_entry(unchecked(value), entry_id=value["id"])
    assert entry.operation == value["operation"]
    assert len(entry.add) == len(value.get("add", []))


def test_no_ulid_of_the_examples_stands_for_two_things() -> None:
    """A commit, a block and a mark of the time are other things, and a block is added, replaced or
    brought back."""
    commits, blocks, times = set(), set(), set()
    for entry in examples("entry"):
        commits |= {entry["commit"], *(link["commit"] for link in [entry.get("prev")] if link)}
        commits |= {commit for _, commit in entry.get("epochs", {}).values()}
        blocks |= {*entry.get("remove", ()), *entry.get("except", ()), *entry.get("account", ())}
        blocks |= {one["ulid"] for one in entry.get("add", ())}
        times |= {entry.get("horizon"), entry.get("floor")} - {None}
    blocks |= {value["ulid"] for value in examples("meta")} | {
        mark["id"] for mark in examples("deletion-mark")
    }
    assert len(commits) == len({entry["commit"] for entry in examples("entry")}) + 2, (
        "a prev, and a claim"
    )
    assert not commits & blocks
    assert not times & (commits | blocks)
    for entry in examples("entry"):
        assert not {one["ulid"] for one in entry.get("add", ())} & set(entry.get("remove", ()))


def rows_of(header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    found = re.search(
        rf"^\| {re.escape(header)} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE
    )
    assert found, header
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in found[1].splitlines()
    ]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([a-z_0-9]+)`", cell)


def test_the_columns_of_a_checkpoint_are_those_on_the_page() -> None:
    kinds = {
        "text": pa.string(),
        "bytes": pa.binary(),
        "list of text": pa.list_(pa.string()),
        "boolean": pa.bool_(),
    }
    told = {}
    for names, types, _ in rows_of("column"):
        each = [kinds.get(one) or pa.type_for_alias(one) for one in types.split(", ")]
        listed = names_in(names)
        told |= dict(zip(listed, each * len(listed) if len(each) == 1 else each, strict=True))
    assert told == {field.name: field.type for field in (*FRAME, *BULK)}
    order = re.search(r"The order of the columns is (.*?)\. `content`", PAGE, flags=re.DOTALL)
    assert order
    assert names_in(order[1]) == [*FRAME.names, *BULK.names]


def test_the_json_of_a_checkpoint_has_the_keys_on_the_page() -> None:
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    state = create(bucket, world, Definition.create(pa.schema([("id", pa.int64())]))).state
    dropped = Dropped(version=3, time_ms=0)
    lived = replace(state, void=(1,), created=2, first_row_id=7, dropped=dropped)
    file = pq.ParquetFile(pa.BufferReader(encode_checkpoint(lived)))
    found = json.loads(file.metadata.metadata[b"blockstore"])
    root = encode_root(
        replace(lived, requires=(TREE,)),
        Root(version=lived.version, base=lived.version, blocks=(), sources=()),
    )
    of_root = json.loads(pq.ParquetFile(pa.BufferReader(root)).metadata.metadata[b"blockstore"])
    assert of_root.keys() - found.keys() == {"tree"}
    assert {
        name for keys, _ in rows_of("key of the JSON") for name in names_in(keys)
    } == of_root.keys()


def test_the_page_says_what_bounds_each_set_of_the_state() -> None:
    called = {"blocks": "live blocks", "table": "definition", "time_ms": "time", "version": ""}
    told = " ".join(row[0] for row in rows_of("set"))
    lacking = [
        one.name
        for one in fields(State)
        if called.get(one.name, one.name).replace("_", " ") not in told
    ]
    assert lacking == []


def test_the_definition_decodes() -> None:
    (value,) = examples("definition")
    assert Definition.from_json(value).to_json() == value


def test_the_page_names_every_operation_and_every_reason() -> None:
    text = " ".join(PAGE.split())
    assert [str(one) for one in Operation if not re.search(rf"\b{one}\b", text)] == []
    assert [str(one) for one in (*MarkReason, *NoCompactReason) if f"`{one}`" not in text] == []


def test_the_tree_on_the_page_is_that_of_the_names() -> None:
    assert entry_key(42) in PAGE
    assert checkpoint_key(64) in PAGE
    assert split_block_key("01HF7YAT00V3RS3DTR98H6BCFN/meta.json") is not None
