"""Jobs that change rows and tables: once, whichever gateways die; complete or absent."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import TableDropped
from blockstore.format.definition import Definition
from blockstore.index.entry import Operation
from blockstore.operations.distributed_overwrite import commit_of
from blockstore.operations.drop import drop_table
from blockstore.operations.replacement import Replace
from blockstore.reader.jobs.record import Kind, Request, State
from blockstore.reader.jobs.writing import Writing, job_of
from blockstore.table import Table
from tests.reader.jobs.gateways import TERMS, Gateway, Lake
from tests.support.faulty import FaultyBucket, Killed

JOB = "01JD0000000000000000000000"
PEOPLE = pa.schema([("name", pa.string()), ("n", pa.int64())])
CSV = "_row_id,_version,name,n\n0,2,ann,10\n1,2,bob,2\n,,new,3\n"


@dataclass(frozen=True)
class Case:
    """A change of the table ``p``, which has the rows ann and bob at version 2."""

    kind: Kind
    what: str
    body: Any
    rows: dict[str, int]
    """The rows after it."""
    table: str = "p"
    form: str = "json"

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


BEFORE = {"ann": 1, "bob": 2}
CASES = {
    "a row set": Case(
        Kind.ROWS,
        "put",
        {"rows": [{"_row_id": 0, "_version": 2, "name": "ann", "n": 10}, {"name": "new", "n": 3}]},
        {"ann": 10, "bob": 2, "new": 3},
    ),
    "cells": Case(Kind.ROWS, "cells", {"rows": [{"_row_id": 1, "n": 20}]}, {"ann": 1, "bob": 20}),
    "a deletion": Case(Kind.ROWS, "delete", {"rows": [{"_row_id": 0}]}, {"bob": 2}),
    "a file": Case(Kind.UPLOAD, "", CSV, {"ann": 10, "bob": 2, "new": 3}, form="csv"),
    "an alter": Case(Kind.TABLE, "alter", {"add": "m:int"}, BEFORE),
    "a drop": Case(Kind.TABLE, "drop", {}, {}),
    "an undrop": Case(Kind.TABLE, "undrop", {}, BEFORE),
    "a creation": Case(
        Kind.TABLE, "create", {"columns": "a:int", "row_ids": True}, BEFORE, table="made"
    ),
}


def a_lake(case: Case | None = None) -> Lake:
    lake = _a_lake()
    if case is not None and case.what == "undrop":
        drop_table(table_of(lake).log, lake.world(98))
    return lake


def before(case: Case) -> dict[str, int]:
    """The rows before it; a dropped table has none."""
    return {} if case.what == "undrop" else BEFORE


def _a_lake() -> Lake:
    lake = Lake.make()
    definition = Definition.create(PEOPLE, row_ids=True)
    world = lake.world(0)
    bucket = Prefixed(lake.bucket, "p")
    table = Table(bucket, world, index_log.create(bucket, world, definition))
    table.append(pa.table({"name": ["ann", "bob"], "n": [1, 2]}))
    return lake


def table_of(lake: Lake, name: str = "p") -> Table:
    return Table.open_bucket(Prefixed(lake.bucket, name), lake.world(99), dropped=True)


def submit(gateway: Gateway, case: Case) -> None:
    gateway.upload(JOB, case.text, kind=case.kind, what=case.what, table=case.table, form=case.form)


def seen(lake: Lake) -> dict[str, int]:
    try:
        rows = table_of(lake).snapshot().scan(columns=["name", "n"]).to_table().to_pylist()
    except TableDropped:
        return {}
    assert len({row["name"] for row in rows}) == len(rows), "no row is there twice"
    return {row["name"]: row["n"] for row in rows}


def version_of(case: Case) -> int:
    return {"create": 1, "undrop": 4}.get(case.what, 3)


def check(lake: Lake, case: Case) -> None:
    """The change was made, and made once."""
    assert seen(lake) == case.rows
    table = table_of(lake)
    made = [one for one in table.history() if one.job is not None]
    if case.what == "create":
        assert table_of(lake, "made").log.state.version == 1
    else:
        assert (len(made), table.log.state.version) == (1, version_of(case))
    assert ("m" in table.definition.schema.names) == (case.what == "alter")


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_gateway_killed_at_any_call_leaves_a_change_whole_or_absent(
    what: str, after: bool
) -> None:
    case = CASES[what]
    for point in range(1, 400):
        lake = a_lake(case)
        faulty = FaultyBucket(lake.bucket, **{"kill_after" if after else "kill_before": point})
        one, two = lake.gateway(1, bucket=faulty), lake.gateway(2)
        with suppress(Killed):
            submit(one, case)
            one.look_and_run()
        if faulty.killed_at is not None:
            if not two.store.sketch(JOB).submitted:
                assert seen(lake) == before(case)
                submit(two, case)
            for _ in range(4):
                two.look_and_run()
                lake.clock.advance(TERMS.lease_s + 1)
        job = two.store.load(JOB)
        assert job.state is State.DONE, (point, job.outcome)
        assert job.outcome is not None
        assert job.outcome.written is not None
        assert job.outcome.written["version"] == version_of(case)
        check(lake, case)
        if faulty.killed_at is None:
            break
    else:
        raise AssertionError("the job makes more calls than that")
    assert point > 5


@pytest.mark.parametrize("what", [what for what in CASES if what != "a creation"])
def test_a_change_that_was_given_up_is_not_made_by_a_late_attempt(what: str) -> None:
    case = CASES[what]
    lake = a_lake(case)
    one, two = lake.gateway(1), lake.gateway(2)
    submit(one, case)
    (claimed,) = one.runner.look()
    for _ in range(2):
        lake.clock.advance(TERMS.lease_s + 1)
        late = two.runner.look()
    two.store.cancel(JOB)
    outcome = two.run(late[0])
    assert outcome is not None
    assert outcome.state is State.CANCELLED
    work = one.runner._works[claimed.request.kind]
    with pytest.raises(Exception, match="another attempt gave up this job"):
        work.run(JOB, 1, claimed.request, one.runner._meter(claimed))
    assert seen(lake) == before(case)
    assert "m" not in table_of(lake).definition.schema.names


def test_stale_rows_fail_the_job_and_are_not_tried_again() -> None:
    lake = a_lake()
    gateway = lake.gateway(1)
    table_of(lake).set_cells([{"_row_id": 0, "n": 5}])
    submit(gateway, CASES["a row set"])
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.attempt, outcome.failure.error) == (1, "conflict")
    stale = [{"row": 0, "expected": 2, "found": 3}]
    assert outcome.failure.detail == {"rows": stale, "version": 3}
    assert seen(lake) == {"ann": 5, "bob": 2}


def test_a_table_that_was_made_again_is_not_changed() -> None:
    lake = a_lake()
    gateway = lake.gateway(1)
    gateway.upload(
        JOB,
        CASES["cells"].text,
        kind=Kind.ROWS,
        what="cells",
        table="p",
        table_version=2,
        table_commit="01JD0000000000000000000009",
    )
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "replaced"
    assert seen(lake) == BEFORE


@pytest.mark.parametrize("what", [what for what in CASES if what != "a creation"])
def test_a_job_for_a_dropped_table_does_not_reach_the_next_one(what: str) -> None:
    case = CASES[what]
    lake = a_lake(case)
    gateway = lake.gateway(1)
    state = table_of(lake).log.state
    text, commit = case.text, commit_of(state)
    gateway.upload(
        JOB,
        text,
        kind=case.kind,
        what=case.what,
        table="p",
        form=case.form,
        table_version=state.version,
        table_commit=commit,
    )
    if state.dropped is None:
        drop_table(table_of(lake).log, lake.world(97))
    bucket, world = Prefixed(lake.bucket, "p"), lake.world(96)
    made = index_log.create(bucket, world, Definition.create(PEOPLE, row_ids=True)).state
    (outcome,) = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "replaced"
    after = table_of(lake).log.state
    assert (after.version, after.dropped, len(after.blocks)) == (made.version, None, 0)


def test_a_creation_that_was_made_is_not_made_again_after_a_drop() -> None:
    """Its gateway died before it recorded the outcome; then a person dropped the table."""
    lake = a_lake()
    one, two = lake.gateway(1), lake.gateway(2)
    submit(one, CASES["a creation"])
    (claimed,) = one.runner.look()
    one.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, one.runner._meter(claimed))
    drop_table(table_of(lake, "made").log, lake.world(97))
    for _ in range(3):
        lake.clock.advance(TERMS.lease_s + 1)
        two.look_and_run()
    assert two.store.load(JOB).state is State.DONE
    assert table_of(lake, "made").log.state.dropped is not None


def test_changes_of_rows_have_places_of_their_own() -> None:
    lake = a_lake()
    gateway = lake.gateway(1)
    for number in range(4):
        gateway.upload(f"01JD000000000000000000000{number}")
    gateway.upload(
        "01JD000000000000000000000Z", CASES["cells"].text, kind=Kind.ROWS, what="cells", table="p"
    )
    kinds = [claimed.request.kind for claimed in gateway.runner.look()]
    assert kinds == [Kind.UPLOAD, Kind.UPLOAD, Kind.ROWS]


def test_a_request_without_the_newest_fields_is_as_before() -> None:
    plain = Request(kind=Kind.QUERY, owner="me", created_ms=1, form="csv", sql="select 1")
    assert {"what", "row_ids"}.isdisjoint(json.loads(plain.dump()))
    named = Request(
        kind=Kind.ROWS, owner="me", created_ms=1, form="json", table="p", what="put", row_ids=True
    )
    assert Request.load(named.dump(), "key") == named
    assert Request.load(plain.dump(), "key") == plain


def test_a_change_that_wrote_no_block_is_known_to_a_later_attempt_and_kept_from_giving_up() -> None:
    """The rows of all blocks that it replaces went: its entry names no block, as that of a job
    that was given up does not."""
    lake = _a_lake()
    definition = Definition.create(PEOPLE)
    bucket, world = Prefixed(lake.bucket, "q"), lake.world(5)
    table = Table(bucket, world, index_log.create(bucket, world, definition))
    table.append(pa.table({"name": ["ann"], "n": [1]}))
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(JOB, '{"rows": []}', kind=Kind.ROWS, what="put", table="q", form="json")
    (claimed,) = one.runner.look()
    state = table.log.poll()
    table.log.commit(
        Replace(
            operation=Operation.DELETE,
            commit=world.ids.ulid(),
            read=state,
            gone={block.ulid: frozenset() for block in state.blocks},
            job=job_of(claimed.request),
        )
    )
    work = two.runner._works[claimed.request.kind]
    assert isinstance(work, Writing)
    for ended in (
        work.settle(JOB, claimed.request),
        work.run(JOB, 2, claimed.request, one.runner._meter(claimed)),
    ):
        assert ended is not None
        assert ended.written is not None
        assert ended.written["version"] == 3
    assert table.log.poll().version == 3, "the batch was taken"
