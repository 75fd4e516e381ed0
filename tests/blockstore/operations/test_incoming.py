from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.operations.incoming import batches_of, table_of

TABLE = pa.table({"n": [1, 2, 3]})


class Capsule:
    """Only the Arrow PyCapsule interface, as a foreign library has it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._inner.__arrow_c_stream__(requested_schema)


class Struct:
    def __init__(self, inner: pa.RecordBatch) -> None:
        self._inner = inner

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._inner.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_reader(),
        TABLE.to_batches()[0],
        Capsule(TABLE),
        Struct(TABLE.to_batches()[0]),
        TABLE.to_batches(),
        (batch for batch in TABLE.to_batches(max_chunksize=1)),
        [TABLE],
    ],
    ids=[
        "table",
        "reader",
        "batch",
        "capsule",
        "struct array",
        "list",
        "generator",
        "list of tables",
    ],
)
def test_what_speaks_arrow_becomes_batches(data: Any) -> None:
    assert pa.Table.from_batches(batches_of(data)).to_pydict() == {"n": [1, 2, 3]}


@pytest.mark.parametrize("data", [None, 1, "text", b"bytes", {"n": [1]}, object()])
def test_what_does_not_is_named(data: Any) -> None:
    with pytest.raises(Invalid, match=type(data).__name__):
        batches_of(data)


def test_a_wrong_item_among_batches_is_named_by_its_number() -> None:
    with pytest.raises(Invalid, match="item 2"):
        list(batches_of([*TABLE.to_batches(), {"n": 1}]))


def test_nothing_is_read_ahead() -> None:
    def endless() -> Any:
        yield from TABLE.to_batches()
        raise AssertionError("read too far")

    assert next(batches_of(endless())).num_rows == 3


def test_structs_of_which_some_are_null_are_no_rows() -> None:
    structs = pa.array([{"n": 1}, None], pa.struct([("n", pa.int64())]))
    with pytest.raises(Invalid, match=r"cannot read a pyarrow.*ChunkedArray as a table of Arrow"):
        list(batches_of(pa.chunked_array([structs])))


@pytest.mark.parametrize(
    "data",
    [{"n": [1, 2, 3]}, TABLE, Capsule(TABLE), iter(TABLE.to_batches()), Capsule(TABLE[:0])],
)
def test_a_table_of_all_rows_has_the_columns_also_without_rows(data: Any) -> None:
    found = table_of(data)
    assert found.schema == TABLE.schema
    assert found.num_rows in (0, 3)
