"""A job that finds nothing to do takes its batch, in whichever way it changes rows: tried again
later, when there is something, it does nothing."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.index.entry import Operation
from blockstore.operations.access import Access
from blockstore.rows.attempts import Said, already_done
from blockstore.rows.distributed import commit_parts
from blockstore.rows.exchange import exchange_rows
from blockstore.rows.merge import Merge
from blockstore.rows.results import RowsChanged
from blockstore.rows.together import RowsTogether
from blockstore.table import Table
from tests.blockstore.rows.lake import BY_KEY, again, by_key

Do = Callable[[Access, Said], RowsChanged]


def together(access: Access, said: Said) -> RowsChanged:
    done = already_done(access.log.state, Operation.MERGE, said)
    if done is not None:
        return done
    all_of_them = RowsTogether(access, access.log.state, said)
    did = RowsChanged(operation="merge", updated=0)
    return all_of_them.commit(Operation.MERGE, did, said)


def exchanged(access: Access, said: Said) -> RowsChanged:
    return exchange_rows(access, access.log.state, frozenset(), {}, said)


def parts(access: Access, said: Said) -> RowsChanged:
    return commit_parts(
        access, [], ulid=access.world.ids.ulid(), definition=access.log.state.definition,
        labels={}, said=said, producer="test", operation=Operation.MERGE, read_version=1,
    ).did  # fmt: skip


def merged(access: Access, said: Said) -> RowsChanged:
    source = pa.table({"id": [1], "name": ["z"], "n": [9]}, BY_KEY)
    return Merge(access, source, "id", said).when_matched_update().execute()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("do", [together, exchanged, parts, merged])
def test_a_job_that_finds_nothing_takes_its_batch(do: Do, ordered: bool) -> None:
    table = by_key()
    batches = [7] if ordered else [9, 7]
    for batch in batches:
        done = do(access(table), Said(job=bs.Job("nightly", batch), ordered=ordered))
        assert not done.already
    before = again(table).log.state
    again(table).upsert(pa.table({"id": [1], "name": ["a"], "n": [1]}, BY_KEY))
    later = do(access(table), Said(job=bs.Job("nightly", 7), ordered=ordered))
    assert later.already
    assert later.version == before.version
    assert again(table).snapshot().scan().to_table().to_pylist() == [{"id": 1, "name": "a", "n": 1}]


@pytest.mark.parametrize("do", [together, exchanged, parts, merged])
def test_without_a_job_nothing_is_written(do: Do) -> None:
    table = by_key()
    do(access(table), Said())
    assert again(table).log.state.version == table.log.state.version


def access(table: Table) -> Access:
    one = again(table)
    one.log.poll()
    return Access.of(one.bucket, one.world, one.log)
