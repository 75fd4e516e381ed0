"""Replicas of tables whose checkpoints are roots: leaves come before their root, and are looked for
once more after it."""

from __future__ import annotations

import pytest

from blockstore.index import log as log_module
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.tree import grow
from blockstore.index.tree.open import base_of
from blockstore.index.tree.split import Rule
from blockstore.names import CHECKPOINTS, parse_checkpoint
from blockstore.operations.tree import move_to_tree
from tests.blockstore.care.replicate.replicas import Pair, collected, fresh, go_on
from tests.support.faulty import Call, FaultyBucket, Killed, crash_points
from tests.support.trees import leaf_keys, read_root


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root after each second entry, with leaves of a few items."""
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=1, most=2))
    monkeypatch.setattr(grow, "SOURCES", Rule(bits=1, most=2))
    monkeypatch.setattr(log_module, "every", lambda blocks: 2)


def moved(pair: Pair) -> Pair:
    """The source is moved to the tree, and goes on."""
    pair.remember()
    move_to_tree(pair.source.open().log, pair.source.world)
    pair.remember()
    go_on(pair, "x", "y", "z")
    pair.remember()
    return pair


def check_leaves(pair: Pair) -> None:
    """Every root of the replica has its leaves."""
    roots = 0
    for info in pair.target.list(CHECKPOINTS):
        version = parse_checkpoint(info.key)
        assert version is not None
        try:
            root = read_root(pair.target, version)
        except AssertionError:
            continue  # of before the move
        roots += 1
        assert not root.keys - leaf_keys(pair.target), f"root {version}"
    assert roots


@pytest.mark.parametrize("scene", [fresh, collected])
def test_a_replica_of_a_table_in_leaves_is_the_source(scene: object) -> None:
    assert callable(scene)
    pair = moved(scene())
    pair.replicate()
    pair.check_equal()
    check_leaves(pair)
    go_on(pair, "v", "w")
    pair.remember()
    pair.replicate()
    pair.check_equal()
    check_leaves(pair)


def test_leaves_that_went_with_a_copy_put_back_under_their_root_are_sent_again() -> None:
    pair = moved(fresh())
    target, lost = FaultyBucket(pair.target), list[int]()

    def lose(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith(CHECKPOINTS):
            data = pair.target.get(call.key).data
            version = parse_checkpoint(call.key)
            assert version is not None
            root = base_of(decode_checkpoint(data, version=version))
            lost.append(version)
            pair.target.delete([] if root is None else sorted(root.keys)[:2])

    target.after.append(lose)
    pair.replicate(target=target)
    assert lost
    check_leaves(pair)


def test_killed_at_any_write_the_next_pass_ends_it() -> None:
    pair = moved(fresh())
    source = {info.key: pair.source.bucket.get(info.key).data for info in pair.source.bucket.list()}
    whole = FaultyBucket(pair.target)
    pair.replicate(target=whole)
    points = [one for one in crash_points(whole.calls, lost=False) if "index/" in one[1].key]
    assert len(points) > 10
    for fault, call in points[::6]:
        pair.target.delete([info.key for info in pair.target.list()])
        with pytest.raises(Killed):
            pair.replicate(target=FaultyBucket(pair.target, **{fault: call.number}))  # type: ignore[arg-type]
        pair.check_reader(f"{fault} {call}")
        pair.replicate()
        check_leaves(pair)
        assert pair.replica().found() == pair.source.found()
    assert source.keys() <= {info.key for info in pair.source.bucket.list()}
