"""A line of JSON becomes values of the columns' types exactly, or is refused with its number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.cli.files import json_lines
from blockstore.errors import Invalid

TEXT = "12:00:00.123456789"
NOON_NS = 43_200_123_456_789
TIME, MOMENT, ZONED = pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin")


def column(folder: Path, kind: pa.DataType, *lines: str) -> pa.Array:
    """The column ``c`` that the lines hold."""
    path = folder / "x.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    batches = json_lines.read(
        str(path), "x.jsonl", pa.schema([("c", kind)]), advance=lambda _: None
    )
    return pa.Table.from_batches(batches)["c"].combine_chunks()


NESTED: list[tuple[pa.DataType, object, object]] = [
    (pa.list_(TIME), [TEXT, None], [NOON_NS, None]),
    (pa.list_(TIME, 1), [TEXT], [NOON_NS]),
    (pa.struct([("t", TIME)]), {"t": TEXT}, {"t": NOON_NS}),
    (pa.map_(pa.string(), TIME), {"a": TEXT}, [("a", NOON_NS)]),
    (pa.map_(TIME, TIME), [[TEXT, None]], [(NOON_NS, None)]),
    (pa.list_(pa.struct([("t", pa.list_(TIME))])), [{"t": [TEXT]}], [{"t": [NOON_NS]}]),
    (pa.list_(MOMENT), [f"1970-01-01T{TEXT}"], [NOON_NS]),
    (pa.list_(ZONED), [f"1970-01-01T{TEXT}Z"], [NOON_NS]),
    (pa.list_(pa.timestamp("us")), ["1970-01-01T00:00:00.000001"], [1]),
    (pa.list_(pa.time32("ms")), ["00:00:00.001"], [1]),
    (pa.list_(pa.date32()), ["1970-01-02"], [1]),
]


@pytest.mark.parametrize(
    ("kind", "value", "counts"), NESTED, ids=[str(kind) for kind, _, _ in NESTED]
)
def test_times_in_lists_and_objects_are_read_to_the_nanosecond(
    kind: pa.DataType, value: object, counts: object, tmp_path: Path
) -> None:
    lines = [json.dumps({"c": one}) for one in (value, None, value)]
    assert column(tmp_path, kind, *lines).equals(pa.array([counts, None, counts], kind))


def test_times_in_lists_need_no_pandas(tmp_path: Path) -> None:
    """In a process of its own: pyarrow looks for pandas but once."""
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"c": [TEXT], "m": {"a": f"1970-01-01T{TEXT}"}}))
    program = f"""
from blockstore.cli.lean import without_pandas
without_pandas()
import pyarrow as pa
from blockstore.cli.files import json_lines
columns = [("c", pa.list_(pa.time64("ns"))), ("m", pa.map_(pa.string(), pa.timestamp("ns")))]
schema = pa.schema(columns)
(batch,) = json_lines.read({str(path)!r}, "x.jsonl", schema, advance=lambda _: None)
print(batch["c"].values[0].value, batch["m"].items[0].value)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{NOON_NS} {NOON_NS}\n", "")


PAIRS = pa.map_(pa.string(), pa.string())


def test_a_map_is_an_object_or_a_list_of_pairs(tmp_path: Path) -> None:
    found = column(
        tmp_path, PAIRS, '{"c": {"a": "b"}}', '{"c": [["a", "b"], ["c", null]]}', '{"c": []}'
    )
    assert found.to_pylist() == [[("a", "b")], [("a", "b"), ("c", None)], []]


@pytest.mark.parametrize(
    "value",
    [
        '["ab", "cd"]',
        '[{"x": "1", "y": "2"}]',
        '[["a"]]',
        '[["a", "b", "c"]]',
        "[1]",
        "[null]",
        '"ab"',
    ],
)
def test_what_is_no_pair_is_refused_with_its_line(value: str, tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match=r"^x\.jsonl, line 2: column 'c' is .*, expected map.*: fix the value"
    ):
        column(tmp_path, PAIRS, '{"c": {"a": "b"}}', f'{{"c": {value}}}')


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [10, 900, 1_000, 100_000])
def test_lists_or_objects_nested_too_deeply_are_refused_with_their_line(
    brackets: str, depth: int, tmp_path: Path
) -> None:
    deep = brackets[:-1] * depth + "null" + brackets[-1] * depth
    with pytest.raises(Invalid, match=r"^x\.jsonl, line 2: ") as caught:
        column(tmp_path, pa.string(), '{"c": "a"}', f'{{"c": {deep}}}')
    if depth == 100_000:
        assert "lists or objects nested too deeply" in str(caught.value)


def test_each_depth_about_the_limit_of_python_is_refused_with_its_line(tmp_path: Path) -> None:
    """What could just be read may be too deep to be shown."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 150, limit + 10):
        with pytest.raises(Invalid, match=r"^x\.jsonl, line 1: "):
            column(tmp_path, pa.string(), f'{{"c": {"[" * depth}{"]" * depth}}}')
