"""Views and run-ends are written as the values that they mean."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition

VIEW, LARGE = pa.list_view(pa.int8()), pa.large_list_view(pa.int8())
LISTS = [[1], None, [], [2, 3], None]
CASES: list[tuple[pa.DataType, list[Any]]] = [
    (VIEW, LISTS),
    (LARGE, LISTS),
    (VIEW, [None]),
    (VIEW, []),
    (pa.list_view(LARGE), [[[1, 2], None], None, [[], [3]]]),
    (
        pa.struct([("view", LARGE), ("n", pa.int8())]),
        [{"view": [1], "n": 1}, None, {"view": None, "n": 2}],
    ),
    (pa.list_(LARGE), [[[1], None], None, [[2, 3]]]),
    (pa.large_list(LARGE), [[[1], None], None, [[2, 3]]]),
    (pa.list_(LARGE, 2), [[[1], None], None, [[2], [3, 4]]]),
    (pa.map_(pa.string(), LARGE), [[("a", [1]), ("b", None)], None, [("c", [2, 3])]]),
    (
        pa.list_view(pa.struct([("s", pa.large_string())])),
        [[{"s": "a"}, None], None, [{"s": None}]],
    ),
]


def written(column: pa.Array) -> pa.Array:
    definition = Definition.create(pa.schema([("c", column.type)]))
    batch = cast_batch(pa.record_batch([column], ["c"]), definition)
    batch.validate(full=True)
    assert batch.schema.equals(definition.schema)
    return batch.column("c")


@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
def test_each_value_of_a_list_view_is_written_also_nested_and_of_a_slice(
    kind: pa.DataType, values: list[Any]
) -> None:
    column = pa.array(values, kind)
    assert written(column).to_pylist() == values
    assert written(column.slice(1)).to_pylist() == values[1:]


TEXTS = ["a", "a", None, "a text that is too long to be kept in its view"]
VIEWS = pa.array(TEXTS, pa.string_view())
CODES = pa.DictionaryArray.from_arrays(
    pa.array([0, 0, None, 1], pa.uint32()), pa.array([TEXTS[0], TEXTS[3]], pa.string_view())
)
RUNS = pa.array([2, 3, 4], pa.int16())


@pytest.mark.parametrize(
    "column",
    [
        VIEWS,
        CODES,
        pa.RunEndEncodedArray.from_arrays(RUNS, pa.array(TEXTS[1:])),
        pa.RunEndEncodedArray.from_arrays(RUNS, VIEWS[1:]),
        pa.RunEndEncodedArray.from_arrays(RUNS, CODES[1:]),
        pa.array(TEXTS, pa.json_(pa.string_view())),
    ],
    ids=["views", "codes", "runs", "runs of views", "runs of codes", "extension"],
)
def test_texts_in_an_encoding_are_written_also_in_lists_and_structs(column: pa.Array) -> None:
    assert written(column).to_pylist() == TEXTS
    assert written(column.slice(1, 2)).to_pylist() == TEXTS[1:3]
    lists = pa.ListArray.from_arrays([0, 1, 4], column)
    assert written(lists).to_pylist() == [TEXTS[:1], TEXTS[1:]]
    assert written(lists.slice(1)).to_pylist() == [TEXTS[1:]]
    structs = pa.StructArray.from_arrays([column], names=["s"])
    assert written(structs.slice(1)).to_pylist() == [{"s": text} for text in TEXTS[1:]]


@pytest.mark.parametrize("views", [pa.ListViewArray, pa.LargeListViewArray])
def test_views_that_overlap_and_run_backwards_are_written_one_after_the_other(views: Any) -> None:
    column = views.from_arrays([2, 0, 1], [1, 3, 2], pa.array([1, 2, 3], pa.int8()))
    assert written(column).to_pylist() == [[3], [1, 2, 3], [2, 3]]
