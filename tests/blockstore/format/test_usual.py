"""The usual block, decoded at once: the same as field by field, or not at all."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import BlockstoreError
from blockstore.format import meta as module
from blockstore.format.block import ColumnStats, Job, VisibleBy
from blockstore.format.meta import from_dict, to_dict
from blockstore.format.usual import usual_block
from tests.blockstore.format.blocks import A, B, block, chunk, merged

PLAIN = {"v": ColumnStats(min=1, max=2.5, nulls=0), "w": ColumnStats(min=None, max="z", nulls=2)}
USUAL = to_dict(
    block(labels={}, job=None, files=(chunk(**PLAIN),), schema=b"", schema_id=4, producer="python")
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def strictly(value: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> object:
    """What the field-by-field way answers."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "usual_block", lambda value: None)
        return from_dict(value)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def test_the_usual_block_is_decoded_at_once_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = orjson.loads(orjson.dumps(USUAL))
    found = usual_block(value)
    assert found is not None
    assert found == strictly(value, monkeypatch)
    assert to_dict(found) == USUAL


@pytest.mark.parametrize(
    "other",
    [
        merged(),
        block(labels={"cluster": "eu1"}, job=None),
        block(labels={}, job=Job("nightly", 3)),
        block(labels={}, job=None, revision=1, sources=(B,)),
        block(labels={}, job=None, unknown=b'{"more":1}'),
        block(
            labels={}, job=None, files=(chunk(v=ColumnStats(min=1.0, max=2.0, nulls=0, nans=1)),)
        ),
    ],
)
def test_any_other_is_left_to_the_field_by_field_way(other: Any) -> None:
    assert usual_block(orjson.loads(orjson.dumps(to_dict(other)))) is None


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_whatever_is_changed_it_answers_the_same_or_nothing(data: st.DataObject) -> None:
    value: Any = copy.deepcopy(orjson.loads(orjson.dumps(USUAL)))
    for _ in range(data.draw(st.integers(0, 2))):
        path = data.draw(st.sampled_from(places(value)[1:]))
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        deed = data.draw(st.sampled_from(["set", "drop", "add"]))
        if deed == "drop":
            del holder[path[-1]]
        elif deed == "add" and isinstance(holder, dict):
            holder[data.draw(st.text(max_size=3))] = data.draw(ANYTHING)
        else:
            holder[path[-1]] = data.draw(ANYTHING)
    found = usual_block(value)
    if found is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "usual_block", lambda value: None)
        try:
            expected: object = from_dict(value)
        except BlockstoreError as error:
            expected = error
    assert found == expected
    assert {type(file.rows) for file in found.files} <= {int}


@pytest.mark.parametrize("visible_by", VisibleBy)
def test_both_witnesses_are_usual(visible_by: VisibleBy) -> None:
    value = copy.deepcopy(USUAL)
    value["blockstore"]["visible_by"] = visible_by.value
    found = usual_block(value)
    assert found is not None
    assert (found.visible_by, found.sources, found.ulid) == (visible_by, (A,), A)
