"""Files in every form and pack, read as a table's columns; how far a file was read is told."""

from __future__ import annotations

import bz2
import errno
import gzip
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.cli.files.forms import Form, form_of
from blockstore.cli.files.source import read, schema_of, sources
from blockstore.errors import Invalid
from tests.support.damaged import flipped, parquet_with_a_wrong_page
from tests.support.tally import tally

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
CSV = 'n,s\n1,a\n,\n3,""\n'


def rows(
    path: Path, form: Form | None = None, schema: pa.Schema = SCHEMA, **options: object
) -> list[dict[str, object]]:
    with sources((str(path),), form) as (source,):
        return [row for batch in read(source, schema, **options) for row in batch.to_pylist()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.parquet", Form.PARQUET),
        ("A.CSV", Form.CSV),
        ("a.b.tsv.gz", Form.TSV),
        ("a.ndjson.zst", Form.JSON),
        ("a.feather", Form.ARROW),
    ],
)
def test_a_name_tells_the_form(name: str, form: Form) -> None:
    assert form_of(name) is form


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "csv"])
def test_a_name_that_tells_no_form_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="give --format"):
        form_of(name)


def test_null_and_the_empty_text_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(CSV)
    assert rows(tmp_path / "x.csv") == [
        {"n": 1, "s": "a"},
        {"n": None, "s": None},
        {"n": 3, "s": ""},
    ]


def test_packed_files_are_unpacked_and_progress_counts_what_lies_there(tmp_path: Path) -> None:
    expected = 3000
    text = "n,s\n" + "1,a\n" * expected
    packs = {
        "x.csv": text.encode(),
        "x.csv.gz": gzip.compress(text.encode()),
        "x.csv.bz2": bz2.compress(text.encode()),
    }
    for name, data in packs.items():
        (tmp_path / name).write_bytes(data)
        seen: list[float] = []
        assert len(rows(tmp_path / name, advance=seen.append)) == expected
        assert sum(seen) == len(data)


def test_columns_come_by_name_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\ufeffs,n\nb,2\n")
    assert rows(tmp_path / "x.csv") == [{"n": 2, "s": "b"}]


def test_times_are_read_as_utc_or_refused(tmp_path: Path) -> None:
    zoned, naive = (
        pa.schema([("t", pa.timestamp("us", "UTC"))]),
        pa.schema([("t", pa.timestamp("us"))]),
    )
    for text, schema, ms in (
        ("2013-01-01", zoned, 1_356_998_400_000),
        ("2013-01-01 00:00", zoned, 1_356_998_400_000),
        ("2013-01-01T02:00:00+02:00", zoned, 1_356_998_400_000),
        ("2013-01-01 00:00:00.000001", naive, None),
        ("2013-01-01T00:00:00Z", naive, "refused"),
        ("01.01.2013", zoned, "refused"),
    ):
        for name, content in (("x.csv", f"t\n{text}\n"), ("x.jsonl", f'{{"t": "{text}"}}\n')):
            (tmp_path / name).write_text(content)
            if ms == "refused":
                with pytest.raises(Invalid, match="column 't'"):
                    rows(tmp_path / name, schema=schema)
                continue
            with sources((str(tmp_path / name),), None) as (source,):
                value = next(iter(read(source, schema))).column(0)[0].value
            assert value == (ms * 1000 if ms is not None else 1_356_998_400_000_001)


def test_numbers_in_json_are_exact(tmp_path: Path) -> None:
    schema = pa.schema([("i", pa.int64()), ("d", pa.decimal128(20, 3)), ("u", pa.uint8())])
    (tmp_path / "x.json").write_text(
        '{"i": 9007199254740993, "d": 12345678901234567.123, "u": 255}\n{"i": 1.0, "d": "1.5"}\n'
    )
    found = rows(tmp_path / "x.json", schema=schema)
    assert [str(row["d"]) for row in found] == ["12345678901234567.123", "1.500"]
    assert [row["i"] for row in found] == [9007199254740993, 1]
    for wrong in (
        '{"u": 256}',
        '{"i": true}',
        '{"d": 1.2345}',
        '{"i": "1"}',
        '{"u": -1}',
        '{"i": 1, "i": 2}',
        '{"i": 1e400}',
    ):
        (tmp_path / "x.json").write_text(wrong)
        with pytest.raises(Invalid, match=r"x\.json, line 1"):
            rows(tmp_path / "x.json", schema=schema)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float32(), "1e39"),
        (pa.float32(), "-3.4028235677973366e+38"),
        (pa.float64(), "1e400"),
        (pa.decimal128(5, 2), '"abc"'),
        (pa.decimal128(5, 2), '"1_0"'),
        (pa.decimal128(5, 2), '"1e99999999999999999999"'),
        (pa.decimal128(5, 2), "330.449306204552758432412759567655206746812978"),
        (pa.decimal128(5, 5), "-0.64093048586965273478097716761026088169525327"),
        (pa.int64(), "1e999999999"),
        (pa.int64(), "1e99999999999999999999"),
    ],
)
def test_json_numbers_that_a_column_cannot_hold_are_refused(
    kind: pa.DataType, value: str, tmp_path: Path
) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"n": {value}}}\n')
    with pytest.raises(Invalid, match=r"x\.jsonl, line 1"):
        rows(tmp_path / "x.jsonl", schema=pa.schema([("n", kind)]))


def test_the_schema_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("i,f,t,s,e\n1,1.5,2013-01-01 05:00:00,a,\n")
    with sources((str(tmp_path / "x.csv"),), None) as (source,):
        assert schema_of(source).types == [
            pa.int64(),
            pa.float64(),
            pa.timestamp("us"),
            pa.string(),
            pa.string(),
        ]
    pq.write_table(pa.table({"x": [1]}), tmp_path / "noname")
    with sources((str(tmp_path / "noname"),), Form.PARQUET) as (source,):
        assert schema_of(source).names == ["x"]


def test_arrow_files_and_streams_are_told_apart(tmp_path: Path) -> None:
    table = pa.table({"n": [1], "s": ["a"]}, schema=SCHEMA)
    with pa.ipc.new_file(tmp_path / "file.arrow", SCHEMA) as writer:
        writer.write_table(table)
    with pa.ipc.new_stream(tmp_path / "stream.arrow", SCHEMA) as writer:
        writer.write_table(table)
    (tmp_path / "packed.arrow.gz").write_bytes(
        gzip.compress((tmp_path / "file.arrow").read_bytes())
    )
    for name in ("file.arrow", "stream.arrow", "packed.arrow.gz"):
        assert rows(tmp_path / name) == table.to_pylist()


@pytest.mark.parametrize("form", [Form.PARQUET, Form.ARROW])
def test_whatever_bits_of_a_file_have_changed_it_is_read_or_refused(
    tmp_path: Path, form: Form
) -> None:
    kept = pa.table(
        {
            "n": pa.array(range(200)),
            "s": pa.array([f"text {one % 37}" if one % 5 else None for one in range(200)]),
            "l": pa.array([[one, None] if one % 3 else [] for one in range(200)]),
            "d": pa.array(["a", "b"] * 100).dictionary_encode(),
        }
    )
    out = BytesIO()
    if form is Form.PARQUET:
        pq.write_table(kept, out, compression="none")
    else:
        with pa.ipc.new_file(out, kept.schema) as writer:
            writer.write_table(kept, max_chunksize=50)
    path = tmp_path / f"x.{form}"
    refused = 0
    for data in flipped(out.getvalue(), 300, seed=1):
        path.write_bytes(data)
        try:
            found = [one for batch in _batches(path) for one in batch.column(1).to_pylist()]
            assert len(found) <= 100_000
        except Invalid as error:
            refused += str(path) in str(error)
        except UnicodeDecodeError:
            pass  # of the test's own look: a write says which row it is
    assert refused > 50
    tally("damaged files read or refused", 300)


def test_a_page_that_is_not_as_its_checksum_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(parquet_with_a_wrong_page(pa.table({"n": range(9)})))
    assert pq.read_table(path)["n"].to_pylist() != [*range(9)], "else nothing is damaged"
    with pytest.raises(Invalid, match=r"cannot be read as parquet .*CRC checksum"):
        _batches(path)


def test_an_error_of_the_machine_is_not_called_one_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": [1]}), path)

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(pq, "ParquetFile", broken)
    with pytest.raises(OSError, match="Input/output"):
        _batches(path)


def _batches(path: Path) -> list[pa.RecordBatch]:
    with sources((str(path),), None) as (source,):
        return [*read(source, schema_of(source))]


def test_a_type_is_suggested_only_where_the_table_would_take_the_values(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("hex,n,day,fine\n0x1F,1,2020-01-01,2020-01-01 10:00:00.123456789\n0x20,,,\n")
    with sources((str(path),), None) as (source,):
        found = schema_of(source)
        assert found.field("hex").type == pa.string()
        assert found.field("n").type == pa.int64()
        assert found.field("day").type == pa.date32()
        assert found.field("fine").type == pa.timestamp("ns")
        (batch,) = read(source, found)
    assert batch.column("hex").to_pylist() == ["0x1F", "0x20"]
    assert batch.column("n").to_pylist() == [1, None]


def test_a_line_with_other_fields_is_named_where_types_are_suggested(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3\n")
    with (
        sources((str(path),), None) as (source,),
        pytest.raises(Invalid, match="line 3: 1 fields, expected 2 as in the header"),
    ):
        schema_of(source)


def test_texts_of_json_that_are_all_dates_or_times_are_suggested_as_these(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"day": "2020-01-01", "at": "2020-01-01T10:00:00Z", "fine": "2020-01-01T10:00:00.123Z", '
        '"bare": "2020-01-01T10:00:00", "mixed": "2020-01-01", "text": "2020-01-01", '
        '"in": {"at": ["2020-01-01T10:00:00+01:00"], "none": null}, "empty": []}\n'
        '{"mixed": "2020-01-01 10:00:00", "text": "soon", "bare": null}\n'
    )
    with sources((str(path),), None) as (source,):
        found = schema_of(source)
        utc = pa.timestamp("us", "UTC")
        assert dict(zip(found.names, found.types, strict=True)) == {
            "day": pa.date32(),
            "at": utc,
            "fine": utc,
            "bare": pa.timestamp("us"),
            "mixed": pa.timestamp("us"),
            "text": pa.string(),
            "in": pa.struct([("at", pa.list_(utc)), ("none", pa.string())]),
            "empty": pa.list_(pa.string()),
        }
        (batch,) = read(source, found)
    assert batch.column("at")[0].as_py() == datetime(2020, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1}\n[1]\n', r"line 2: found '\[1\]', expected a JSON object"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', "line 2: key 'a' is in one object twice"),
    ],
)
def test_a_line_of_json_that_is_no_row_is_named_where_types_are_suggested(
    tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with sources((str(path),), None) as (source,), pytest.raises(Invalid, match=says):
        schema_of(source)


class TestOldMoments:
    """INT96, which Spark and Hive write."""

    def test_they_are_what_they_are_beyond_nanoseconds(self, tmp_path: Path) -> None:
        far = [datetime(9999, 12, 31), datetime(1, 1, 1), None]
        table = pa.table({"x": pa.array(far, pa.timestamp("us"))})
        pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
        with sources((str(tmp_path / "x.parquet"),), None) as (source,):
            assert schema_of(source) == table.schema
        assert [row["x"] for row in rows(tmp_path / "x.parquet")] == far

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (pa.array([1], pa.timestamp("ns")), "digits below a microsecond"),
            (pa.array([2**44], pa.timestamp("s")), "a year that microseconds do not reach"),
        ],
    )
    def test_what_microseconds_cannot_hold_is_refused(
        self, tmp_path: Path, values: pa.Array, said: str
    ) -> None:
        # The last row of several batches and row groups.
        column = pa.concat_arrays([pa.array([0] * 150_000, values.type), values])
        pq.write_table(
            pa.table({"n": range(len(column)), "x": column}),
            tmp_path / "x.parquet",
            use_deprecated_int96_timestamps=True,
            row_group_size=100_000,
        )
        with pytest.raises(Invalid, match=rf"x.parquet has a moment with {said} in column 'x'"):
            rows(tmp_path / "x.parquet")
