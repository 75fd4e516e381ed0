"""An entry as bytes: strict, total, and naming itself in every error."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Corrupt, NewerFormat
from blockstore.format import Job
from blockstore.format.sources import INLINE
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.checkpoint_name import NamedCheckpoint
from blockstore.index.entry import Entry, Operation, decode_entry, encode_entry
from tests.support.examples import few
from tests.support.index_data import DEFINITION, NOW, block, history, ulid

FULL = Entry(
    id=42,
    commit=ulid(1),
    time=NOW,
    operation=Operation.APPEND,
    add=(
        AddedBlock(meta=block(2, labels={"cluster": "eu1"})),
        AddedBlock(meta=block(3), version=7, first_row_id=30),
    ),
    remove=(ulid(4),),
    excepts={ulid(2): (ulid(2),)},
    account=(ulid(5),),
    keep=(ulid(6),),
    job=Job(app="nightly", batch=17),
    first_row_id=100,
    role="compactor",
    epochs={"compactor": (3, ulid(7))},
    checkpoint=NamedCheckpoint(id=40, bytes=9_000, sha256="cd" * 32),
    read_version=41,
    parameters={"where": "a > 1"},
    message="why",
    table=DEFINITION,
    tags={"q3-close": 40, "gone": None},
    horizon=ulid(8),
    floor=ulid(7),
    by="host, test, 1",
)
LEAST = {"format": 1, "id": 42, "commit": ulid(1), "time": NOW, "operation": "append"}


def decode(**fields: object) -> Entry:
    return decode_entry(orjson.dumps({**LEAST, **fields}), entry_id=42)


def test_bytes_say_every_field() -> None:
    assert decode_entry(encode_entry(FULL), entry_id=42) == FULL


def test_fields_at_their_defaults_are_left_out() -> None:
    assert json.loads(encode_entry(decode())) == LEAST


def test_an_unknown_operation_is_kept() -> None:
    assert decode(operation="levitate", remove=[ulid(1)]).remove == (ulid(1),)


def test_unknown_fields_are_ignored() -> None:
    assert decode(color="blue") == decode()


def test_an_id_other_than_the_name_is_corrupt() -> None:
    with pytest.raises(Corrupt, match=r"index entry 42 .*has the id 41.*restore"):
        decode(id=41)


def test_a_newer_format_names_the_entry_and_the_version() -> None:
    with pytest.raises(NewerFormat, match=r"index entry 42 .*2"):
        decode(format=2)


def test_an_unknown_requirement_is_refused_by_name() -> None:
    with pytest.raises(NewerFormat, match=r"index entry 42 .*keyed.*0\.4"):
        decode(requires=["keyed/0.4"])


def test_many_sources_stand_in_a_file() -> None:
    sources = tuple(ulid(number) for number in range(INLINE + 1))
    one = AddedBlock(meta=block(5_000, sources=sources), sources=sources)
    value = json.loads(
        encode_entry(Entry(id=2, commit=ulid(1), time=NOW, operation="compact", add=(one,)))
    )
    assert value["add"][0]["compaction"]["sources"].keys() == {"path", "count", "sha256"}
    back = decode_entry(orjson.dumps(value), entry_id=2).add[0]
    assert isinstance(back.sources, SourcesFile)
    assert back.sources.count == INLINE + 1
    assert back.with_sources(sources).meta == one.meta


BLOCK = AddedBlock(meta=block(2)).to_json()
BAD: dict[str, dict[str, object]] = {
    "no commit": {"commit": None},
    "a commit that is no ULID": {"commit": "x" * 26},
    "a time that is a text": {"time": "now"},
    "a time that is true": {"time": True},
    "an id that is a float": {"id": 42.0},
    "a removal twice": {"remove": [ulid(1), ulid(1)]},
    "a removal of a number": {"remove": [1]},
    "a block that is a text": {"add": ["block"]},
    "a block without a name": {"add": [{**BLOCK, "ulid": None}]},
    "a block without compaction": {"add": [{**BLOCK, "compaction": None}]},
    "sources that are empty": {"add": [{**BLOCK, "compaction": {"level": 2, "sources": []}}]},
    "sources out of order": {
        "add": [{**BLOCK, "compaction": {"level": 2, "sources": [ulid(9), ulid(1)]}}]
    },
    "sources elsewhere": {
        "add": [
            {
                **BLOCK,
                "compaction": {"level": 2, "sources": {"path": "../x", "count": 1, "sha256": ""}},
            }
        ]
    },
    "a first row id without version": {"add": [{**BLOCK, "committed": {"first_row_id": 1}}]},
    "exceptions of nothing": {"except": {ulid(1): []}},
    "exceptions of no block": {"except": {"x": [ulid(1)]}},
    "an epoch without holder": {"epochs": {"compactor": [3]}},
    "an epoch that is true": {"epochs": {"compactor": [True, ulid(1)]}},
    "a tag on the future": {"tags": {"a": 42}},
    "a job without batch": {"job": {"app": "a"}},
    "a job with a negative batch": {"job": {"app": "a", "batch": -1}},
    "parameters that are a list": {"parameters": []},
    "a definition that is a list": {"table": []},
    "a definition without schemas": {"table": {"schema_id": 1}},
    "a horizon that is a number": {"horizon": 1},
    "requirements that are a text": {"requires": "all"},
}


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD.keys())
def test_a_wrong_field_is_corrupt_and_the_error_names_the_entry(fields: dict[str, object]) -> None:
    with pytest.raises(Corrupt, match="index entry 42"):
        decode(**fields)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"id":42,"id":42}',
        encode_entry(FULL)[:-7],
        b"[" * 100_000,
    ],
    ids=["empty", "cut", "list", "null", "no UTF-8", "doubled key", "truncated", "deep"],
)
def test_bytes_that_are_no_entry_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="index entry 42"):
        decode_entry(data, entry_id=42)


@settings(max_examples=few(25), deadline=None)
@given(st.integers(0, 10_000))
def test_every_entry_of_a_history_survives_its_bytes(seed: int) -> None:
    for one in history(seed, 15):
        data = encode_entry(one)
        assert encode_entry(decode_entry(data, entry_id=one.id)) == data


@settings(max_examples=few(200), deadline=None)
@given(st.binary(max_size=4), st.integers(0, len(encode_entry(FULL)) - 1))
def test_damaged_bytes_are_corrupt_or_an_entry(patch: bytes, at: int) -> None:
    data = encode_entry(FULL)
    damaged = data[:at] + patch + data[at + len(patch) :]
    named = True
    try:
        decoded = decode_entry(damaged, entry_id=42)
    except Corrupt as error:
        named = "index entry 42" in str(error)
    else:
        assert decoded.id == 42
    assert named
