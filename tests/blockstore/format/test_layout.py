"""Arrays with wrong offsets, lengths or indices are refused, at any depth; other text than UTF-8 is
not looked at."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.format.layout import check_layout

_OFFSETS = pa.py_buffer(b"\0\0\0\0\xff\0\0\0\2\0\0\0")
_BAD = pa.Array.from_buffers(pa.string(), 2, [None, _OFFSETS, pa.py_buffer(b"ab")])
_OTHER = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
)


def _inside(array: pa.Array) -> dict[str, pa.Array]:
    """The array in columns of each type that holds others."""
    ends = pa.array(range(len(array) + 1), pa.int32())
    keys = pa.array([str(one) for one in range(len(array))])
    return {
        "plain": array,
        "list": pa.ListArray.from_arrays(ends, array),
        "large list": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), array),
        "list of fixed size": pa.FixedSizeListArray.from_arrays(array, 1),
        "struct": pa.StructArray.from_arrays([array], ["a"]),
        "map": pa.MapArray.from_arrays(ends, keys, array),
        "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * len(array)), array),
        "extension": pa.ExtensionArray.from_storage(pa.json_(pa.string()), array),
        "list of a struct": pa.ListArray.from_arrays(
            ends, pa.StructArray.from_arrays([array], ["a"])
        ),
    }


@pytest.mark.parametrize("kind", _inside(_BAD))
def test_an_offset_out_of_its_bytes_is_refused(kind: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), _inside(_BAD)[kind]], ["n", "x"])
    with pytest.raises(pa.ArrowInvalid):
        check_layout(batch)


@pytest.mark.parametrize("kind", _inside(_OTHER))
def test_other_text_than_utf8_is_left_to_those_who_name_the_row(kind: str) -> None:
    check_layout(pa.RecordBatch.from_arrays([_inside(_OTHER)[kind]], ["x"]))


def test_an_index_beyond_the_dictionary_is_refused() -> None:
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 5]), pa.array(["a"]), safe=False)
    with pytest.raises(pa.ArrowInvalid):
        check_layout(pa.RecordBatch.from_arrays([wrong], ["x"]))
