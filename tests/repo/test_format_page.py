"""The page about the format says what the code reads: every JSON example on it is decoded, and names are the code's."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.format.definition import Definition
from blockstore.format.document import sealed
from blockstore.format.marks import MarkReason, NoCompactReason, decode_deletion_mark, decode_no_compact_mark
from blockstore.format.meta import decode
from blockstore.index.entry import Operation, decode_entry
from blockstore.names import checkpoint_key, entry_key, split_block_key

PAGE = (Path(__file__).parent.parent.parent / "docs" / "format.md").read_text()
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(
            [("time", pa.timestamp("ms", "UTC")), ("origin", pa.string()), ("delay", pa.float64())], start=1
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


def unchecked(value: dict) -> bytes:
    """An example as JSON, with the seal that its bytes have here."""
    data = json.dumps({name: item for name, item in value.items() if name != "check"}).encode()
    return sealed(data) if "check" in value else data


def test_every_example_is_of_a_kind_that_is_tried_here() -> None:
    kinds = set(re.findall(r"^```json ?(\S*)", PAGE, flags=re.MULTILINE))
    assert kinds == {"meta", "deletion-mark", "no-compact-mark", "entry", "definition"}


def test_the_meta_decodes() -> None:
    (value,) = examples("meta")
    meta = decode(unchecked(value), ulid=value["ulid"])
    assert (meta.rows, meta.job.batch if meta.job else None, meta.unknown) == (120_000, 17, b"")
    assert meta.files[0].columns["delay"].nans == 1


def test_the_marks_decode() -> None:
    (deletion,) = examples("deletion-mark")
    assert decode_deletion_mark(json.dumps(deletion).encode(), ulid=deletion["id"]).superseded_by
    (kept,) = examples("no-compact-mark")
    assert decode_no_compact_mark(json.dumps(kept).encode(), ulid=kept["id"]).details == "under examination"


@pytest.mark.parametrize("number", [0, 1])
def test_the_entries_decode(number: int) -> None:
    value = examples("entry")[number]
    entry = decode_entry(unchecked(value), entry_id=value["id"])
    assert entry.operation == value["operation"]
    assert len(entry.add) == len(value.get("add", []))


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
