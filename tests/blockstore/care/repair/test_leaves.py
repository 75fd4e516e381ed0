"""Lost leaves are written again under their own names, or a person is asked; rebuilds and replicas
of tables in leaves."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.rebuild import plan_rebuild, rebuild
from blockstore.care.repair.plan import plan_repair
from blockstore.care.repair.run import carry_out
from blockstore.care.repair.step import RepairOptions, StepKind
from blockstore.care.survey import survey
from blockstore.care.verify.index import check_index
from blockstore.index import log as log_module
from blockstore.index.log import Log, create
from blockstore.index.tags import tag
from blockstore.index.tree import grow
from blockstore.index.tree.split import Rule
from blockstore.names import BOUNDARY, checkpoint_key, entry_key, meta_key
from blockstore.operations.tree import move_to_tree
from blockstore.world import World
from tests.support.index_data import DEFINITION, append, ulid
from tests.support.trees import leaf_keys, read_root


@pytest.fixture
def bucket(world: World) -> MemoryBucket:
    bucket = MemoryBucket(world.clock)
    for number in range(300):
        bucket.put(meta_key(ulid(number)), b"{}")
    return bucket


@pytest.fixture
def log(bucket: MemoryBucket, world: World, monkeypatch: pytest.MonkeyPatch) -> Log:
    """42 versions, a root after every fourth, leaves of a few items."""
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=2, most=8))
    monkeypatch.setattr(grow, "SOURCES", Rule(bits=2, most=8))
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    log = create(bucket, world, DEFINITION)
    move_to_tree(log, world)
    for number in range(100, 140):
        log.commit(append(number))
    return log


def repaired(bucket: MemoryBucket, world: World) -> list[StepKind]:
    """Repair the index, and return what was done."""
    plan = plan_repair(bucket, world, None, RepairOptions())
    done = list(carry_out(bucket, None, plan))
    assert not any(one.failed for one in done)
    return [step.kind for step in plan.steps]


def findings(bucket: MemoryBucket, world: World) -> list[str]:
    return [
        one.object for one in check_index(survey(bucket, world, every_checkpoint=True), bucket.url)
    ]


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_leaf_is_restored_under_its_name_from_another_generation(
    bucket: MemoryBucket, world: World, log: Log, damage: str
) -> None:
    tag(log, world, "kept")  # its root has leaves of its own, of equal content
    lost = read_root(bucket, 40).blocks[0]
    before = {version: read_root(bucket, version) for version in (36, 40)}
    good = bucket.get(lost.key).data
    if damage == "missing":
        bucket.delete([lost.key])
    else:
        bucket.put(lost.key, b"garbage")
    log.boundary.advance(32)
    bucket.delete([entry_key(entry) for entry in range(1, 30)])
    bucket.delete([checkpoint_key(version) for version in range(1, 32)])
    assert checkpoint_key(40) in findings(bucket, world)
    assert StepKind.LEAF in repaired(bucket, world)
    assert bucket.get(lost.key).data == good
    assert {version: read_root(bucket, version) for version in (36, 40)} == before
    assert findings(bucket, world) == []


def test_a_leaf_comes_back_from_the_entries_under_its_name(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    before = {version: read_root(bucket, version) for version in (36, 40)}
    own = next(leaf for leaf in before[40].blocks if leaf.generation == 40)
    bucket.delete([own.key])
    assert checkpoint_key(40) in findings(bucket, world)
    steps = repaired(bucket, world)
    assert StepKind.CHECKPOINT in steps
    assert StepKind.PERSON not in steps
    assert own.key in leaf_keys(bucket)
    after = {version: read_root(bucket, version) for version in (36, 40)}
    assert {version: root.keys for version, root in after.items()} == {
        version: root.keys for version, root in before.items()
    }
    assert findings(bucket, world) == []
    assert Log(bucket, world).poll() == log.state


def test_a_lost_root_names_the_leaves_that_those_near_it_name(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    before, others = read_root(bucket, 40).keys, read_root(bucket, 36).keys
    bucket.put(checkpoint_key(40), b"garbage")
    assert repaired(bucket, world) == [StepKind.CHECKPOINT]
    after = read_root(bucket, 40).keys
    assert after & others == before & others != frozenset(), "others rely on these"
    assert findings(bucket, world) == []


def test_a_leaf_without_another_copy_is_left_to_a_person(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    lost = read_root(bucket, 40).blocks[0]
    bucket.delete([lost.key])
    log.boundary.advance(39)
    bucket.delete([entry_key(entry) for entry in range(1, 40)])
    bucket.delete([checkpoint_key(version) for version in range(1, 40)])
    plan = plan_repair(bucket, world, None, RepairOptions())
    assert [step.kind for step in plan.steps if step.object == lost.key] == [StepKind.PERSON]
    assert not list(carry_out(bucket, None, plan))


def test_a_leaf_comes_back_from_a_replica(bucket: MemoryBucket, world: World, log: Log) -> None:
    replica = MemoryBucket(world.clock)
    for info in bucket.list():
        replica.put(info.key, bucket.get(info.key).data)
    lost = read_root(bucket, 40).sources[0]
    bucket.delete([lost.key])
    log.boundary.advance(39)
    bucket.delete([entry_key(entry) for entry in range(1, 40)])
    bucket.delete([checkpoint_key(version) for version in range(1, 40)])
    plan = plan_repair(bucket, world, None, RepairOptions(replica=replica))
    assert StepKind.LEAF in [step.kind for step in plan.steps]
    list(carry_out(bucket, None, plan))
    assert lost.key in leaf_keys(bucket)
    assert findings(bucket, world) == []


def test_a_lost_boundary_is_filled_in(bucket: MemoryBucket, world: World, log: Log) -> None:
    state = log.state
    bucket.delete([BOUNDARY])
    bucket.put(checkpoint_key(40), b"garbage")
    plan = plan_rebuild(bucket, world)
    rebuild(bucket, world, plan)
    again = Log(bucket, world).poll()
    assert again.blocks == state.blocks
    assert again.accounted == state.accounted
