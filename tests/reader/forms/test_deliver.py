"""A result is the same in every form."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.cli.files import delimited
from blockstore.errors import Invalid
from blockstore.reader.forms.deliver import deliver
from blockstore.reader.forms.encode import Form, pieces
from blockstore.reader.query import Engine
from blockstore.scan.view import TableSnapshot
from blockstore.world import World

ROWS = pa.table(
    {
        "n": [1, None],
        "price": pa.array(
            [Decimal("1.50"), Decimal("-12345678901234567890123456789012345.67")],
            pa.decimal128(38, 2),
        ),
        "at": pa.array([0, 1_500_000], pa.timestamp("us", "UTC")),
        "local": pa.array([0, 1], pa.timestamp("ns")),
        "day": pa.array([0, None], pa.date32()),
        "text": ['a "quoted", one\nwith a line', ""],
        "list": [[1, 2], None],
        "struct": [{"at": dt.datetime(2013, 1, 1, tzinfo=dt.UTC)}, None],
        "raw": [b"\x00\xff", None],
        "odd": [float("nan"), float("inf")],
        "flag": [True, None],
    }
)


def reader(table: pa.Table = ROWS, batch_rows: int = 1) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(batch_rows))


def written(form: str, table: pa.Table = ROWS) -> bytes:
    return b"".join(pieces(Form(form), table.schema, reader(table)))


def test_json_is_one_array_of_objects_with_exact_values() -> None:
    first, second = json.loads(written("json"), parse_float=Decimal)
    assert first == {
        "n": 1,
        "price": Decimal("1.50"),
        "at": "1970-01-01T00:00:00Z",
        "local": "1970-01-01T00:00:00",
        "day": "1970-01-01",
        "text": 'a "quoted", one\nwith a line',
        "list": [1, 2],
        "struct": {"at": "2013-01-01T00:00:00Z"},
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "odd": None,
        "flag": True,
    }
    assert second["price"] == Decimal("-12345678901234567890123456789012345.67")
    assert second["at"] == "1970-01-01T00:00:01.500000Z"
    assert second["local"] == "1970-01-01T00:00:00.000000001"
    assert json.loads(written("json", ROWS.slice(0, 0))) == []


def test_csv_and_tsv_tell_null_from_an_empty_text() -> None:
    table = ROWS.select(["n", "text", "at", "flag", "list"])
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        options = pacsv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        )
        parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        again = pacsv.read_csv(
            io.BytesIO(written(form, table)), parse_options=parse, convert_options=options
        )
        assert again["text"].to_pylist() == table["text"].to_pylist()
        assert again["n"].to_pylist() == [1, None]
        assert again["list"].to_pylist() == ["[1,2]", None]
        assert again["flag"].to_pylist() == [True, None]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)], ids=str
)
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_bytes_are_base64_in_csv_and_tsv_as_in_json(kind: pa.DataType, form: str) -> None:
    table = pa.table({"n": [1, 2, 3], "raw": pa.array([b"\x00\xff\n", None, b"abc"], kind)})
    in_json = [row["raw"] for row in json.loads(written("json", table))]
    assert in_json == ["AP8K", None, "YWJj"]
    over_http = b"".join(pieces(Form(form), table.schema, table.to_batches()))
    assert over_http == written(form, table)
    rows = list(
        csv.reader(io.StringIO(over_http.decode()), delimiter="," if form == "csv" else "\t")
    )
    assert [row[1] or None for row in rows[1:]] == in_json


def test_parquet_and_arrow_keep_types_and_rows() -> None:
    table = ROWS.select(["n", "price", "at", "text", "list", "raw"])
    assert pq.read_table(io.BytesIO(written("parquet", table))).to_pylist() == table.to_pylist()
    assert pa.ipc.open_stream(written("arrow", table)).read_all() == table


def test_a_table_for_people_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    deliver(reader(pa.table({"n": range(1500)}), 400), "table", None)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1002
    assert "999" in out.splitlines()[-1]
    assert "first 1,000 rows" in err
    deliver(reader(), "table", None)
    out, err = capsys.readouterr()
    assert "1970-01-01T00:00:01.500000Z" in out
    assert err == ""


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    def breaks() -> pa.RecordBatchReader:
        def batches():  # type: ignore[no-untyped-def]
            yield ROWS.to_batches()[0]
            raise Invalid("no more")

        return pa.RecordBatchReader.from_batches(ROWS.schema, batches())

    target = tmp_path / "x.parquet"
    with pytest.raises(Invalid, match="no more"):
        deliver(breaks(), "parquet", str(target))
    assert list(tmp_path.iterdir()) == []
    deliver(reader(), "parquet", str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]
    assert pq.read_table(target).num_rows == 2


def test_what_a_form_cannot_hold_is_told(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(Invalid, match="two columns 'a'"):
        written("json", twice)
    with pytest.raises(Invalid, match="use -o csv"):
        deliver(reader(), "table", str(tmp_path / "x"))


@pytest.mark.parametrize("to_file", [True, False], ids=["file", "standard output"])
def test_a_type_that_a_form_cannot_write_is_told_in_one_sentence(
    to_file: bool, tmp_path: Path
) -> None:
    answer = reader(pa.table({"odd": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))
    with pytest.raises(
        Invalid, match=r"cannot be written as parquet \(.*\): use arrow, or cast the columns"
    ):
        deliver(answer, "parquet", str(tmp_path / "x") if to_file else None)
    assert list(tmp_path.iterdir()) == []


PLAIN = [
    *((kind, [1, None, 0]) for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())),
    (pa.bool_(), [True, None, False]),
    (
        pa.decimal128(38, 3),
        [Decimal("1.5"), None, Decimal("-99999999999999999999999999999999999.999")],
    ),
    (pa.string(), ["a", None, "", 'a "quoted", one\nwith a line']),
    (pa.binary(), [b"a", None, b"", b"\xff"]),
    (pa.binary(2), [b"ab", None, b"\xff\x00"]),
    *(
        (kind, [0, None, 1])
        for kind in (pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("ns"))
    ),
    *(
        (pa.timestamp(unit, zone), [0, None, 1])
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC")
    ),
    (pa.duration("ms"), [0, None, 1]),
]


@pytest.mark.parametrize(("kind", "values"), PLAIN, ids=[str(kind) for kind, _ in PLAIN])
@pytest.mark.parametrize(("form", "delimiter"), [("csv", ","), ("tsv", "	")])
def test_every_type_comes_back_as_it_was_written_also_alone_in_a_table(
    kind: pa.DataType, values: list[object], form: str, delimiter: str, tmp_path: Path
) -> None:
    table = pa.table({"c": pa.array([None, *values, None], kind)})
    with Engine({"t": snapshot_of(table, tmp_path / "t")}) as engine:
        deliver(engine.query("SELECT * FROM t"), form, str(tmp_path / "x"))
    options = {"delimiter": delimiter, "nulls": (), "advance": lambda size: None}
    batches = delimited.read(str(tmp_path / "x"), "x", table.schema, **options)
    assert pa.Table.from_batches(batches) == table


def snapshot_of(table: pa.Table, folder: Path) -> TableSnapshot:
    made = bs.create(f"{folder}?durable=false", schema=table.schema, world=World.manual())
    made.append(table)
    return made.snapshot()


def test_a_file_that_cannot_be_written_is_told_by_its_name(tmp_path: Path) -> None:
    target = tmp_path / "no folder" / "x.csv"
    with pytest.raises(Invalid, match=r"x\.csv cannot be written \(No such file or directory\)"):
        deliver(reader(), "csv", str(target))
    target.parent.mkdir()
    full = pa.RecordBatchReader.from_batches(ROWS.schema, no_space())
    with pytest.raises(Invalid, match=r"x\.csv cannot be written \(No space left on device\)"):
        deliver(full, "json", str(target))
    assert list(target.parent.iterdir()) == []


def test_an_answer_leaves_the_files_of_others_alone(tmp_path: Path) -> None:
    target, others = tmp_path / "x.csv", tmp_path / "x.csv.part"
    others.write_text("mine")
    (tmp_path / "link.csv").symlink_to(target)
    deliver(reader(), "csv", str(tmp_path / "link.csv"))
    assert (tmp_path / "link.csv").is_symlink()
    assert target.read_bytes() == written("csv")
    assert others.read_text() == "mine"


def no_space() -> Iterator[pa.RecordBatch]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    yield


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((1, 2, 3_500_000_000), "P1M2DT3.5S"),
        ((0, 0, 0), "PT0S"),
        ((0, -1, 0), "P-1D"),
        ((0, 0, 60 * 10**9), "PT60S"),
    ],
)
def test_intervals_are_iso_texts(interval: tuple[int, int, int], text: str) -> None:
    rows = pa.table(
        {"i": pa.array([pa.MonthDayNano(list(interval)), None], pa.month_day_nano_interval())}
    )
    assert written("csv", rows).decode() == f'"i"\n"{text}"\n\n'
    assert json.loads(written("json", rows)) == [{"i": text}, {"i": None}]


TIME, MOMENT, ZONED = pa.time64("ns"), pa.timestamp("ns"), pa.timestamp("ns", "UTC")
NOON_NS = 43_200_123_456_789
NANOSECONDS: list[tuple[pa.DataType, list[object], list[object]]] = [
    (TIME, [NOON_NS, None, 0], ["12:00:00.123456789", None, "00:00:00"]),
    (pa.list_(TIME), [[NOON_NS, None], None, []], [["12:00:00.123456789", None], None, []]),
    (pa.large_list(TIME), [[NOON_NS], None, [0, 0]], [["12:00:00.123456789"], None, ["00:00:00"] * 2]),
    (pa.list_view(TIME), [[NOON_NS], None, [0, 0]], [["12:00:00.123456789"], None, ["00:00:00"] * 2]),
    (pa.large_list_view(TIME), [[NOON_NS], None, []], [["12:00:00.123456789"], None, []]),
    (pa.list_(MOMENT), [[1], None, [NOON_NS]], [["1970-01-01T00:00:00.000000001"], None, ["1970-01-01T12:00:00.123456789"]]),
    (pa.list_(ZONED), [[1], None, [0]], [["1970-01-01T00:00:00.000000001Z"], None, ["1970-01-01T00:00:00Z"]]),
    (pa.list_(TIME, 2), [[NOON_NS, None], None, [0, 1]], [["12:00:00.123456789", None], None, ["00:00:00", "00:00:00.000000001"]]),
    (
        pa.struct([("t", TIME), ("n", pa.int8()), ("usual", pa.time64("us"))]),
        [{"t": NOON_NS, "n": 1, "usual": 500_000}, None, {"t": None, "n": None, "usual": 0}],
        [{"t": "12:00:00.123456789", "n": 1, "usual": "00:00:00.500000"}, None, {"t": None, "n": None, "usual": "00:00:00"}],
    ),
    (pa.map_(pa.string(), TIME), [[("a", NOON_NS), ("b", None)], None, []], [[["a", "12:00:00.123456789"], ["b", None]], None, []]),
    (pa.map_(MOMENT, pa.int8()), [[(1, 2)], None, []], [[["1970-01-01T00:00:00.000000001", 2]], None, []]),
    (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(TIME, 1)))])),
        [[{"m": [("a", [NOON_NS])]}, None], None, [{"m": None}]],
        [[{"m": [["a", ["12:00:00.123456789"]]]}, None], None, [{"m": None}]],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "told"), NANOSECONDS, ids=[str(kind) for kind, _, _ in NANOSECONDS]
)
def test_nanoseconds_are_told_wholly_in_every_form_also_nested(
    kind: pa.DataType, values: list[object], told: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    column = pa.array([*values[::-1], *values], kind)
    told = [*told[::-1], *told]
    # Any slice: its rows begin in the midst of the arrays that hold them.
    for start, count in ((0, 6), (1, 4), (3, 3), (2, 0)):
        table, expected = pa.table({"c": column.slice(start, count)}), told[start : start + count]
        assert [row["c"] for row in json.loads(written("json", table))] == expected
        for form in ("csv", "tsv"):
            rows = list(
                csv.reader(io.StringIO(written(form, table).decode()), delimiter=DELIMITERS[form])
            )
            # A row whose only value is null is an empty line.
            assert [plain(row[0]) if row else None for row in rows[1:]] == expected
        deliver(reader(table, 6), "table", None)
        shown = "".join(capsys.readouterr().out.split())
        for value in expected:
            text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            assert value is None or text in shown


DELIMITERS = {"csv": ",", "tsv": "\t"}


def plain(cell: str) -> object:
    """What a cell of CSV stands for; a time that Arrow wrote itself has all digits of its unit."""
    return json.loads(cell) if cell[0] in "[{" else cell.removesuffix(".000000000")


@pytest.mark.parametrize("form", ["json", "csv", "tsv", "table"])
def test_nanoseconds_need_no_pandas(form: str) -> None:
    """In a process of its own: pyarrow looks for pandas but once."""
    program = f"""
from blockstore.cli.lean import without_pandas
without_pandas()
import pyarrow as pa
from blockstore.reader.forms.deliver import deliver
time, moment = pa.scalar({NOON_NS}, pa.time64("ns")), pa.scalar({NOON_NS}, pa.timestamp("ns"))
answer = pa.table({{"t": pa.array([time]), "a": pa.array([[time]]), "b": pa.array([{{"x": [moment]}}])}})
deliver(answer.to_reader(), {form!r}, None)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("12:00:00.123456789") == 3
