"""Fold: pure, total, the same everywhere."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.format import Definition, Job
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.change import Append, Create, Draft
from blockstore.index.entry import Entry, Operation, decode_entry, encode_entry
from blockstore.index.fold import fold
from blockstore.index.state import State
from tests.support.examples import few
from tests.support.index_data import (
    DEFINITION,
    NOW,
    Planned,
    block,
    compaction,
    created,
    entry_of,
    follow,
    history,
    merge,
    ulid,
)

ONE, TWO, THREE = block(11), block(12), block(13)
APPENDED = follow(created(), Append(commit=ulid(1), blocks=(ONE, TWO, THREE)))
MERGED = follow(APPENDED, compaction(2, merge(20, [ONE, TWO]), [ONE, TWO]))


def entry(state: State, **fields: object) -> Entry:
    base = Entry(
        id=state.version + 1,
        commit=ulid(900 + state.version),
        time=NOW,
        operation="append",
        prev=state.last if state.version else None,
        sha256="5a" * 32,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def test_an_append_adds_its_blocks_with_version_rows_and_sources() -> None:
    assert APPENDED.blocks.ulids() == [ONE.ulid, TWO.ulid, THREE.ulid]
    assert [(one.version, one.first_row_id) for one in APPENDED.blocks] == [
        (2, 0),
        (2, 10),
        (2, 20),
    ]
    assert APPENDED.next_row_id == 30
    assert all(one.ulid in APPENDED.accounted for one in (ONE, TWO, THREE))
    assert APPENDED.commits.find(ulid(1)) == 2


def test_a_merge_takes_over_the_sources_of_its_parents_without_naming_them() -> None:
    made = merge(20, [ONE, TWO])
    told = entry_of(APPENDED, compaction(2, made, [ONE, TWO]))
    assert told.add[0].sources is None
    assert b"sources" not in encode_entry(told)
    folded = fold(APPENDED, decode_entry(encode_entry(told), entry_id=3)).blocks.get(made.ulid)
    assert folded is not None
    assert folded.meta.sources == (ONE.ulid, TWO.ulid)


def test_sources_that_the_state_cannot_tell_stand_in_the_entry() -> None:
    again = block(30, sources=(ulid(5),), revision=1)
    told = entry_of(APPENDED, Append(commit=ulid(3), blocks=(again,)))
    assert told.add[0].sources == (ulid(5),)
    assert decode_entry(encode_entry(told), entry_id=3).add[0].meta.sources == (ulid(5),)


def test_removed_sources_stay_accounted() -> None:
    gone = follow(
        APPENDED,
        Planned(operation=Operation.EXPIRE, commit=ulid(3), plan=Draft(remove=(ONE.ulid,))),
    )
    assert ONE.ulid not in gone.blocks
    assert ONE.ulid in gone.accounted
    with pytest.raises(Corrupt, match=f"{ONE.ulid}.*accounted"):
        fold(gone, entry(gone, add=(AddedBlock(meta=ONE),), first_row_id=gone.next_row_id))


def test_remove_comes_before_add_and_except_after_it() -> None:
    made = merge(20, [ONE, TWO])
    folded = fold(
        APPENDED,
        entry(
            APPENDED,
            operation="an operation of a later release",
            remove=(ONE.ulid, TWO.ulid),
            add=(AddedBlock(meta=made),),
            first_row_id=30,
            excepts={made.ulid: (ONE.ulid,)},
        ),
    )
    live = folded.blocks.get(made.ulid)
    assert live is not None
    assert live.excepted == {ONE.ulid}


def test_restore_brings_blocks_back_as_they_were() -> None:
    made = merge(20, [ONE, TWO])
    back = Planned(
        operation=Operation.RESTORE,
        commit=ulid(5),
        plan=Draft(
            remove=(made.ulid,),
            add=tuple(
                AddedBlock(meta=one, version=2, first_row_id=first)
                for one, first in ((ONE, 0), (TWO, 10))
            ),
        ),
    )
    restored = follow(MERGED, back)
    assert list(restored.blocks) == list(APPENDED.blocks)
    assert restored.next_row_id == MERGED.next_row_id
    told = entry_of(MERGED, back)
    assert fold(MERGED, decode_entry(encode_entry(told), entry_id=told.id)) == restored


def test_the_floor_forgets_what_neither_keep_nor_a_live_block_names() -> None:
    expired = Draft(remove=(ONE.ulid, TWO.ulid))
    state = follow(APPENDED, Planned(operation=Operation.EXPIRE, commit=ulid(3), plan=expired))
    floor = Draft(floor=ulid(100), horizon=ulid(100), keep=(TWO.ulid,))
    state = follow(state, Planned(operation=Operation.HORIZON, commit=ulid(4), plan=floor))
    assert ONE.ulid not in state.accounted
    assert TWO.ulid in state.accounted
    assert THREE.ulid in state.accounted, "it is live"
    assert len(state.accounted) == 2


BAD = {
    "a gap": {"id": 9},
    "removes what is not live": {"remove": (ulid(77),)},
    "adds a live block": {"add": (AddedBlock(meta=ONE),), "first_row_id": 30},
    "adds an accounted source": {
        "add": (AddedBlock(meta=block(40, sources=(ONE.ulid,), revision=1), sources=(ONE.ulid,)),),
        "first_row_id": 30,
    },
    "adds one source twice": {
        "add": tuple(
            AddedBlock(meta=block(n, sources=(ulid(60),), revision=1), sources=(ulid(60),))
            for n in (41, 42)
        ),
        "first_row_id": 30,
    },
    "adds a block twice": {
        "add": (AddedBlock(meta=block(41)), AddedBlock(meta=block(41))),
        "first_row_id": 30,
    },
    "names parents that it keeps": {
        "add": (AddedBlock(meta=merge(20, [ONE, TWO])),),
        "first_row_id": 30,
    },
    "sources that were not loaded": {
        "add": (AddedBlock(meta=block(41), sources=SourcesFile(count=2_000, sha256="ab" * 32)),),
        "first_row_id": 30,
    },
    "rows that overlap": {"add": (AddedBlock(meta=block(41)),), "first_row_id": 29},
    "rows of the future": {"add": (AddedBlock(meta=block(41), version=2, first_row_id=25),)},
    "a version of the future": {"add": (AddedBlock(meta=block(41), version=3, first_row_id=0),)},
    "an unknown schema": {"add": (AddedBlock(meta=block(41, schema_id=7)),), "first_row_id": 30},
    "excepts what is not live": {"excepts": {ulid(77): (ulid(77),)}},
    "excepts a strange source": {"excepts": {ONE.ulid: (TWO.ulid,)}},
    "accounts twice": {"account": (ONE.ulid,)},
}


@pytest.mark.parametrize("fields", BAD.values(), ids=BAD.keys())
def test_an_entry_that_breaks_a_rule_is_corrupt(fields: dict[str, object]) -> None:
    with pytest.raises(Corrupt, match=r"index entry \d"):
        fold(APPENDED, entry(APPENDED, **fields))


def test_what_only_rises_never_falls() -> None:
    state = follow(
        APPENDED,
        Planned(
            operation=Operation.HORIZON,
            commit=ulid(3),
            plan=Draft(
                horizon=ulid(9), floor=ulid(9), epochs={"compactor": (2, ulid(3))}, tags={"a": 1}
            ),
        ),
        Append(commit=ulid(4), blocks=(), job=Job(app="nightly", batch=3)),
    )
    for fields in (
        {"horizon": ulid(8)},
        {"floor": ulid(8)},
        {"epochs": {"compactor": (2, ulid(5))}},
        {"epochs": {"compactor": (1, ulid(3))}},
        {"tags": {"a": 2}},
        {"job": Job(app="nightly", batch=3)},
        {"table": Definition.create(pa.schema([("x", pa.int8())])), "id": 5},
    ):
        if "table" in fields:
            forgets = replace(
                DEFINITION, schema_id=2, schemas={1: DEFINITION.schema, 2: DEFINITION.schema}
            )
            state = fold(state, entry(state, table=forgets))
            fields["id"] = state.version + 1
        with pytest.raises(Corrupt):
            fold(state, entry(state, **fields))


def test_the_first_entry_defines_the_table() -> None:
    with pytest.raises(Corrupt, match="defines no table"):
        fold(State.EMPTY, entry(State.EMPTY))
    assert (
        follow(State.EMPTY, Create(commit=ulid(0), definition=DEFINITION)).definition == DEFINITION
    )


def test_time_never_falls() -> None:
    later = fold(APPENDED, entry(APPENDED, time=NOW + 50))
    assert fold(later, entry(later, time=NOW)).time_ms == NOW + 50


@settings(max_examples=few(25), deadline=None)
@given(st.integers(0, 10_000))
def test_folding_decoded_bytes_equals_folding_the_values(seed: int) -> None:
    of_values = of_bytes = State.EMPTY
    for one in history(seed, 25):
        of_values = fold(of_values, one)
        of_bytes = fold(of_bytes, decode_entry(encode_entry(one), entry_id=one.id))
    assert of_bytes == of_values


@settings(max_examples=few(60), deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.data())
def test_fold_is_total(seed: int, length: int, data: st.DataObject) -> None:
    """A damaged field gives a state or Corrupt, never another error."""
    entries = history(seed, length)
    state = State.EMPTY
    for one in entries[:-1]:
        state = fold(state, one)
    names = (
        "remove",
        "account",
        "keep",
        "add",
        "excepts",
        "first_row_id",
        "horizon",
        "floor",
        "tags",
        "epochs",
    )
    name = data.draw(st.sampled_from(names))
    other = data.draw(st.sampled_from(entries))
    damaged = replace(entries[-1], **{name: getattr(other, name)})
    try:
        after = fold(state, damaged)
    except Corrupt:
        return
    assert after.version == state.version + 1


DROP = entry(APPENDED, operation="drop", requires=("drop/0.2",))
DROPPED = fold(APPENDED, DROP)
ALL = (ONE.ulid, TWO.ulid, THREE.ulid)
NEXT = DEFINITION.following(DEFINITION)


def test_a_drop_changes_nothing_but_that_the_table_is_dropped() -> None:
    assert DROPPED.dropped is not None
    assert (DROPPED.dropped.version, DROPPED.dropped.cleared) == (3, None)
    assert DROPPED.blocks.ulids() == APPENDED.blocks.ulids()
    assert "drop/0.2" in DROPPED.requires
    back = fold(DROPPED, entry(DROPPED, operation="undrop"))
    assert (back.dropped, back.created, len(back.blocks)) == (None, 1, 3)


def test_a_dropped_table_is_cleared_once_and_then_stays_dropped() -> None:
    cleared = fold(DROPPED, entry(DROPPED, operation="clear", remove=ALL))
    assert cleared.dropped is not None
    assert (cleared.dropped.version, cleared.dropped.cleared) == (3, 4)
    again = fold(cleared, entry(cleared, operation="clear", account=(ulid(77),)))
    assert again.dropped == cleared.dropped
    assert ulid(77) in again.accounted
    with pytest.raises(Corrupt, match="brings a cleared table back"):
        fold(again, entry(again, operation="undrop"))


def test_the_next_table_forgets_schemas_and_batches_and_continues_ids() -> None:
    job = Job("load", 1)
    written = fold(APPENDED, entry(APPENDED, job=job))
    dropped = fold(written, entry(written, operation="drop"))
    made = fold(
        dropped, entry(dropped, operation="create", remove=ALL, table=NEXT, job=Job("c", 0))
    )
    assert (made.created, made.dropped, len(made.blocks)) == (5, None, 0)
    assert (written.committed(job), made.committed(job)) == (True, False)
    assert made.committed(Job("c", 0))
    assert made.next_row_id == 30
    assert list(made.definition.schemas) == [DEFINITION.schema_id + 1]
    assert all(one in made.accounted for one in ALL)


@pytest.mark.parametrize(
    ("state", "fields", "text"),
    [
        (DROPPED, {"operation": "drop"}, "drops a dropped table"),
        (DROPPED, {"add": (AddedBlock(meta=block(14)),), "first_row_id": 30}, "adds blocks"),
        (DROPPED, {"operation": "clear"}, "keeps blocks or tags"),
        (DROPPED, {"operation": "clear", "remove": ALL, "tags": {"a": 2}}, "keeps blocks or tags"),
        (DROPPED, {"operation": "create", "table": NEXT}, "keeps blocks or tags"),
        (DROPPED, {"operation": "create", "remove": ALL}, "creates a table that is there"),
        (DROPPED, {"operation": "alter", "table": NEXT}, "drops a schema"),
        (APPENDED, {"operation": "undrop"}, "is about a dropped table"),
        (APPENDED, {"operation": "clear", "remove": ALL}, "is about a dropped table"),
        (APPENDED, {"operation": "create", "remove": ALL, "table": NEXT}, "that is there"),
    ],
)
def test_what_cannot_be_done_to_a_dropped_table_or_to_one_that_is_there(
    state: State, fields: dict[str, object], text: str
) -> None:
    with pytest.raises(Corrupt, match=text):
        fold(state, entry(state, **fields))
