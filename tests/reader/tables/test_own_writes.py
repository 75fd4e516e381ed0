"""What is known to be written is answered before the next poll, alone and beside other tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.errors import Unavailable
from tests.reader.tables.lakes import Scene
from tests.support.faulty import Call


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(f"{tmp_path}/lake")


def test_what_is_known_to_be_written_is_answered_before_the_next_poll(scene: Scene) -> None:
    table = scene.create("t", [1])
    scene.create("u", [7])
    scene.settle()
    scene.append(table, 2)
    scene.tables.catch_up("t", 3)
    assert scene.values("t") == [1, 2]
    assert scene.tables.snapshots(["t", "u"])["t"].count() == 2, (
        "an instant before it does not count"
    )
    quiet = scene.requests()
    scene.tables.catch_up("t", 3)
    scene.tables.catch_up("gone", 3)
    assert scene.requests() == quiet, "nothing is asked for what is held already, or is no table"


def test_what_could_not_be_caught_up_with_is_looked_at_by_the_next_query(scene: Scene) -> None:
    def refuse(call: Call) -> None:
        raise Unavailable("the store is away")

    table = scene.create("t", [1])
    scene.settle()
    scene.append(table, 2)
    scene.faulty[0].before.append(refuse)
    scene.tables.catch_up("t", 3)
    scene.faulty[0].before.clear()
    scene.advance(2)
    assert scene.values("t") == [1, 2]


def test_a_version_of_a_table_that_was_replaced_is_not_waited_for(scene: Scene) -> None:
    scene.create("t", [1, 2, 3])
    scene.settle()
    scene.drop("t")
    scene.create("t", [9])
    scene.tables.catch_up("t", 40)
    scene.tables.poll_now("t")  # another table is noticed within two looks
    assert scene.values("t") == [9]
    quiet = scene.requests()
    assert scene.values("t") == [9]
    assert scene.requests() - quiet <= 1, "no look for a version that never comes"
