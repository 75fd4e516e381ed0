"""What the disasters of a run rest on: a copy of the store, the books next to it, and the chain of
raw entries."""

from __future__ import annotations

import hashlib

import orjson
import pytest

from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.names import entry_key
from blockstore.simulation import replaced_history
from blockstore.simulation.actors.cast import cast
from blockstore.simulation.changes import Counted
from blockstore.simulation.draw import Draw
from blockstore.simulation.ground import Kind
from blockstore.simulation.ledger import Fate
from blockstore.simulation.oracle.books import brought_back, remembered
from blockstore.simulation.oracle.chain import Chain
from blockstore.simulation.replaced_history import Replacements, definition_of
from blockstore.simulation.run import _do_a_persons_part, kind_of, run
from blockstore.simulation.stage import Stage

SEED = 7
LATER_MS = 3_600_000


@pytest.fixture
def stage() -> Stage:
    return Stage.of(SEED, Kind.INDEXED, Properties())


def entry(number: int, prev: Chain | None = None, *, requires: tuple[str, ...] = ()) -> bytes:
    named = {} if prev is None or prev.digest is None else named_by(prev)
    return orjson.dumps({"id": number, "commit": f"C{number}", "requires": requires, **named})


def named_by(chain: Chain) -> dict[str, object]:
    assert chain.digest is not None
    return {
        "prev": {"commit": chain.commit, "sha256": chain.hash.hex(), "chain": chain.digest.hex()}
    }


def after(*entries: bytes) -> Chain:
    chain = Chain()
    for one in entries:
        chain = chain.after(one)
    return chain


FIRST = entry(1, requires=("chain/0.2",))
OTHER = entry(101, requires=("chain/0.2",))


def test_an_entry_fits_only_the_history_on_which_it_was_written() -> None:
    second = entry(2, after(FIRST))
    assert after(FIRST).fits(second)
    assert not after(OTHER).fits(second)
    assert not after(FIRST, second).fits(second)


def test_two_stale_entries_fit_each_other_and_not_the_history_below() -> None:
    second = entry(2, after(FIRST))
    third = entry(3, after(FIRST, second))
    assert after(FIRST, second).fits(third)
    assert not after(OTHER, second).fits(third)


def test_an_entry_that_names_nothing_fits_until_the_chain_begins() -> None:
    old = entry(1)
    assert after(old).fits(entry(2))
    assert not after(FIRST).fits(entry(2))
    assert after(old).fits(orjson.dumps({"id": 2, "commit": "C2", "prev": {"commit": "C1"}}))
    assert not after(old).fits(orjson.dumps({"id": 2, "commit": "C2", "prev": {"commit": "C0"}}))


def test_the_digest_covers_every_raw_entry() -> None:
    digest = hashlib.sha256(bytes(32) + hashlib.sha256(FIRST).digest()).digest()
    assert after(FIRST).digest == digest
    stray = entry(2, after(OTHER))
    assert (
        after(FIRST, stray).digest
        == hashlib.sha256(digest + hashlib.sha256(stray).digest()).digest()
    )


def test_a_store_that_is_put_back_is_what_was_copied_with_its_times_or_with_those_of_now(
    stage: Stage,
) -> None:
    store = stage.store
    store.watchers.clear()
    store.put("a/1", b"one")
    copy, began_ms = store.copy(), store.head("a/1").modified_ms
    store.put("a/1", b"other")
    store.put("a/2", b"two")
    stage.scheduler.now_ms += LATER_MS
    store.put_back(copy, fresh=False)
    assert [(one.key, one.modified_ms) for one in store.list()] == [("a/1", began_ms)]
    assert store.get("a/1").data == b"one"
    store.put_back(copy, fresh=True)
    assert [(one.key, one.modified_ms) for one in store.list()] == [("a/1", began_ms + LATER_MS)]


def test_what_was_answered_after_the_copy_is_open_again_and_what_was_answered_before_is_not(
    stage: Stage,
) -> None:
    ledger = stage.ledger
    early, between, refused = (ledger.write(stage.scheduler.now_ms) for _ in range(3))
    early.fate, refused.fate = Fate.ACKNOWLEDGED, Fate.REFUSED
    stage.judge.waiting.add(early.number)
    books = remembered(stage.judge, stage.ledger)
    late = ledger.write(stage.scheduler.now_ms)
    between.fate = late.fate = Fate.ACKNOWLEDGED
    stage.judge.waiting.clear()
    brought_back(stage.judge, stage.ledger, books)
    assert [one.fate for one in (early, between, refused, late)] == [
        Fate.ACKNOWLEDGED,
        Fate.OPEN,
        Fate.REFUSED,
        Fate.OPEN,
    ]
    assert stage.judge.waiting == {early.number}


def test_what_an_entry_has_counted_since_the_copy_is_no_longer_known(stage: Stage) -> None:
    """The same operation, tried again, may find other rows."""
    ledger = stage.ledger
    before, since = (ledger.intend("update", stage.scheduler.now_ms) for _ in range(2))
    before.counted = Counted(updated=1)
    nothing, books = Stage.of(SEED, Kind.INDEXED, Properties()), remembered(stage.judge, ledger)
    before.counted, since.counted = Counted(updated=3), Counted(inserted=2)
    brought_back(stage.judge, ledger, books)
    assert (before.counted, since.counted) == (Counted(updated=1), None)
    brought_back(stage.judge, ledger, remembered(nothing.judge, nothing.ledger), empty=True)
    assert before.counted is None


def test_an_entry_above_a_gap_that_came_last_is_removed_before_the_table_is_read(
    stage: Stage,
) -> None:
    """What is on its way arrives when all rest, and no request of theirs lets a person look."""
    index_log.create(stage.store, stage.world(), definition_of(stage))
    stage.replacements = Replacements(stage, Draw(SEED, "replacements"))
    stage.stale = True
    stage.store.put_if_absent(entry_key(8), b"left by a writer that stalled")
    assert stage.judge.history is not None
    assert list(stage.judge.history.strays) == [8]
    _do_a_persons_part(stage)
    assert not stage.judge.history.strays
    assert stage.store.data(entry_key(8)) is None


def test_a_table_that_is_made_anew_knows_only_what_was_refused(stage: Stage) -> None:
    nothing = remembered(stage.judge, stage.ledger)
    kept, refused = (stage.ledger.write(stage.scheduler.now_ms) for _ in range(2))
    kept.fate, refused.fate = Fate.ACKNOWLEDGED, Fate.REFUSED
    brought_back(stage.judge, stage.ledger, nothing, empty=True)
    assert (kept.fate, refused.fate) == (Fate.OPEN, Fate.REFUSED)


def test_the_same_seed_meets_the_same_disasters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_history, "_SHARE", 1.0)
    assert kind_of(SEED + 1) is Kind.INDEXED
    one, other = (run(SEED + 1, 400, cast()) for _ in range(2))
    assert one.digest == other.digest
    assert one.report.sections() == other.report.sections()
