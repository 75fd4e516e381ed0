"""Offsets: the same position is the same text, and nothing foreign is taken for one."""

from __future__ import annotations

import json

import pytest

from blockstore.errors import Corrupt
from blockstore.spark.streaming.position import Position

COMMIT = "01JD0000000000000000000000"


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position(version=0), '{"version": 0}'),
        (Position(version=40, commit=COMMIT), f'{{"version": 40, "commit": "{COMMIT}"}}'),
        (
            Position(version=40, commit=COMMIT, blocks=3),
            f'{{"version": 40, "commit": "{COMMIT}", "blocks": 3}}',
        ),
        (Position(version=40, snapshot=True), '{"snapshot": 40, "blocks": 0}'),
        (
            Position(version=41, begun=Position(version=40, snapshot=True)),
            '{"version": 41, "from": {"snapshot": 40, "blocks": 0}}',
        ),
    ],
)
def test_a_position_is_a_text_and_comes_back_from_it(position: Position, text: str) -> None:
    assert json.dumps(position.to_json()) == text
    assert Position.from_json(json.loads(text)) == position


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"version": "40"},
        {"version": True},
        {"version": -1},
        {"version": 40, "blocks": -1},
        {"version": 40, "commit": 7},
        {"version": 40, "later": 1},
        {"version": 40, "from": 39},
        {"version": 40, "from": None},
        {"version": 40, "from": {}},
        {"version": 40, "from": {"version": 39, "from": {"version": 38}}},
        {"snapshot": None},
        {"partition-1": {"index": 3}},
    ],
)
def test_an_offset_of_another_source_is_refused_with_the_way_out(offset: dict[str, object]) -> None:
    with pytest.raises(Corrupt, match="new checkpoint location"):
        Position.from_json(offset)
