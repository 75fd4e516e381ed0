"""Tables of other formats become tables of our own, row by row the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

import blockstore as bs
from blockstore.errors import BlockstoreError, Conflict, Corrupt, Invalid, NotFound, RowConflict
from blockstore.export.iceberg.export import export_iceberg
from blockstore.format.fields import required
from blockstore.format.identity import Key
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.reader.importing import imported
from blockstore.reader.importing.digest import RowDigest
from blockstore.reader.importing.imported import Wanted, import_rows
from blockstore.reader.importing.sources import open_source
from tests.blockstore.cli.conftest import Command, blockstore  # noqa: F401
from tests.support.damaged import parquet_with_a_wrong_page

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "at": pa.array([dt.datetime(2024, 1, 1 + n, tzinfo=dt.UTC) for n in range(6)]),
        "text": ["a", None, "", "ä", "e", "f"],
        "money": pa.array([Decimal(n) / 4 for n in range(6)], pa.decimal128(12, 2)),
        "many": pa.array([[n] * n for n in range(6)], pa.list_(pa.int32())),
        "inner": pa.array([{"x": n / 2, "y": str(n)} for n in range(6)]),
    }
)


def _parquet(folder: Path) -> None:
    for n, name in enumerate(("a", "b")):
        (folder / name).mkdir(parents=True)
        pq.write_table(ROWS.slice(3 * n, 3), folder / name / "rows.parquet", row_group_size=2)


def _delta(folder: Path) -> None:
    deltalake.write_deltalake(str(folder), ROWS.slice(0, 3))
    deltalake.write_deltalake(str(folder), ROWS.slice(2, 4), mode="append")
    table = deltalake.DeltaTable(str(folder))
    table.delete("id = 2")
    deltalake.write_deltalake(str(folder), ROWS.slice(2, 1), mode="append")


def _iceberg(folder: Path) -> None:
    catalog = load_catalog("made", type="in-memory", warehouse=f"file://{folder.parent}")
    catalog.create_namespace("x")
    table = catalog.create_table("x.t", ROWS.schema, location=f"file://{folder}")
    table.append(ROWS.slice(0, 3))
    table.append(ROWS.slice(2, 4))
    table.delete("id == 2")
    table.append(ROWS.slice(2, 1))


SOURCES: dict[str, Callable[[Path], None]] = {
    "parquet": _parquet,
    "delta": _delta,
    "iceberg": _iceberg,
}


@pytest.fixture(scope="module", params=SOURCES)
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("source") / "t"
    folder.mkdir()
    SOURCES[request.param](folder)
    return request.param, folder


def rows_of(table: bs.Table) -> list[dict[str, Any]]:
    found = table.snapshot().scan(columns=ROWS.schema.names).to_table()
    rows: list[dict[str, Any]] = found.sort_by("id").to_pylist()
    return rows


def test_a_table_has_the_rows_of_the_source(
    source: tuple[str, Path],
    tmp_path: Path,
    blockstore: Command,  # noqa: F811
) -> None:
    form, folder = source
    url = f"{tmp_path}/lake/t"
    said = blockstore(
        "import", str(folder), url, "--time-column", "at", "--sort-by", "id", "--json"
    )
    assert said.json == {
        "url": bs.open(url).url, "version": 2, "rows": 6, "from": form,
    }  # fmt: skip
    table = bs.open(url)
    assert rows_of(table) == ROWS.to_pylist()
    assert (table.definition.time_column, table.definition.sort_by) == ("at", ("id",))
    again = blockstore("import", str(folder), url)
    assert rows_of(table) == ROWS.to_pylist()
    assert "nothing was changed" in again.out
    assert bs.open(url).log.state.version == 2


def test_rows_may_have_a_key_or_ids(source: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = source
    keyed = import_rows(open_source(str(folder)), f"{tmp_path}/keyed", Wanted(key=["id"]))
    table = bs.open(keyed.url)
    assert table.definition.identity == Key(("id",))
    assert rows_of(table) == ROWS.to_pylist()
    import_rows(open_source(str(folder)), f"{tmp_path}/ids", Wanted(row_ids=True))
    assert rows_of(bs.open(f"{tmp_path}/ids")) == ROWS.to_pylist()


def test_an_import_that_was_stopped_is_repeated(
    source: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once before the rows, and once after them."""
    _, folder = source
    url = f"{tmp_path}/t"

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for name in ("append", None):
        with monkeypatch.context() as patched:
            if name:
                patched.setattr(bs.Table, name, stop)
            else:
                patched.setattr(imported, "_compare", stop)
            with pytest.raises(KeyboardInterrupt):
                import_rows(open_source(str(folder)), url, Wanted())
        assert len(rows_of(bs.open(url))) == (0 if name else 6)
    assert import_rows(open_source(str(folder)), url, Wanted()).rows is None
    assert rows_of(bs.open(url)) == ROWS.to_pylist()


@pytest.mark.parametrize("again", [False, True], ids=["new", "where another was dropped"])
def test_a_compactor_may_find_the_table_of_an_import_that_was_stopped(
    source: tuple[str, Path], tmp_path: Path, again: bool
) -> None:
    _, folder = source
    url, found = f"{tmp_path}/t", open_source(str(folder))
    if again:
        bs.create(url, schema=ROWS.schema).append(ROWS)
        bs.drop(url)
    table = bs.create(url, schema=found.schema)
    claim(table.log, table.world, COMPACTOR)
    assert import_rows(found, url, Wanted()).rows == 6
    assert rows_of(bs.open(url)) == ROWS.to_pylist()


def test_a_table_whose_rows_are_gone_is_not_what_an_import_has_begun(
    source: tuple[str, Path], tmp_path: Path
) -> None:
    _, folder = source
    found = open_source(str(folder))
    table = bs.create(f"{tmp_path}/t", schema=found.schema, row_ids=True)
    table.append(ROWS)
    table.delete("true")
    with pytest.raises(Conflict, match="not what an import has begun"):
        import_rows(found, f"{tmp_path}/t", Wanted(row_ids=True))


def test_rows_that_are_not_those_of_the_source_are_reported(
    source: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = source
    append = bs.Table.append

    def wrong(self: bs.Table, data: Iterator[pa.RecordBatch], **more: Any) -> Any:
        rows = pa.Table.from_batches(list(data))
        changed = pc.if_else(pc.equal(rows["id"], 4), 5, rows["id"])
        return append(self, rows.set_column(0, "id", changed), **more)

    monkeypatch.setattr(bs.Table, "append", wrong)
    with pytest.raises(Corrupt, match="not the same rows"):
        import_rows(open_source(str(folder)), f"{tmp_path}/t", Wanted())


def test_a_key_that_occurs_twice_makes_no_rows_visible(
    source: tuple[str, Path], tmp_path: Path
) -> None:
    _, folder = source
    with pytest.raises((Invalid, RowConflict)):
        import_rows(open_source(str(folder)), f"{tmp_path}/t", Wanted(key=["at", "text"]))
    assert bs.open(f"{tmp_path}/t").snapshot().count() == 0


class TestParquet:
    def test_columns_that_came_and_grew_and_folders_that_are_columns(self, tmp_path: Path) -> None:
        for site, rows in {
            "x": pa.table({"n": pa.array([1], pa.int32())}),
            "y": pa.table({"n": pa.array([2**40], pa.int64()), "new": ["b"]}),
        }.items():
            (tmp_path / "from" / f"site={site}").mkdir(parents=True)
            pq.write_table(rows, tmp_path / "from" / f"site={site}" / "rows.parquet")
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted(sort_by=["n"]))
        found = bs.open(f"{tmp_path}/t").snapshot().scan(columns=["n", "new", "site"]).to_table()
        assert found.sort_by("n").to_pylist() == [
            {"n": 1, "new": None, "site": "x"},
            {"n": 2**40, "new": "b", "site": "y"},
        ]

    def test_one_file(self, tmp_path: Path) -> None:
        pq.write_table(ROWS, tmp_path / "rows.parquet")
        done = import_rows(open_source(f"{tmp_path}/rows.parquet"), f"{tmp_path}/t", Wanted())
        assert done.rows == 6

    def test_the_folders_above_one_file_are_not_its_columns(self, tmp_path: Path) -> None:
        """A file has its own columns only, as a folder has those of the folders in it."""
        above = tmp_path / "region=eu" / "year=2024"
        above.mkdir(parents=True)
        rows = pa.table({"region": ["us", "asia"], "v": [1, 2]})
        pq.write_table(rows, above / "rows.parquet")
        for number, source in enumerate((above / "rows.parquet", above)):
            url = f"{tmp_path}/t{number}"
            import_rows(open_source(str(source)), url, Wanted())
            assert bs.open(url).snapshot().scan().to_table().to_pydict() == rows.to_pydict()

    def test_the_name_of_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "from").mkdir()
        pq.write_table(ROWS, tmp_path / "from" / "id=9.parquet")
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        assert rows_of(bs.open(f"{tmp_path}/t")) == ROWS.to_pylist()

    def test_a_required_column_that_a_file_lacks_is_null_there(self, tmp_path: Path) -> None:
        one, two = (pa.field(name, pa.int64(), nullable=False) for name in ("x", "y"))
        (tmp_path / "from").mkdir()
        for name, fields in (("a", [one, two]), ("b", [one])):
            rows = pa.table([[1]] * len(fields), schema=pa.schema(fields))
            pq.write_table(rows, tmp_path / "from" / f"{name}.parquet")
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        table = bs.open(f"{tmp_path}/t")
        assert table.snapshot().scan().to_table().to_pydict() == {"x": [1, 1], "y": [1, None]}
        assert required(table.definition.schema) == ("x",)

    def test_files_with_and_without_a_dictionary(self, tmp_path: Path) -> None:
        (tmp_path / "from").mkdir()
        texts = pa.array(["a", "b", None])
        for name, column in {
            "a": texts.dictionary_encode(),
            "b": texts,
            "c": texts.cast(pa.dictionary(pa.int8(), pa.large_string())),
        }.items():
            pq.write_table(pa.table({"s": column}), tmp_path / "from" / f"{name}.parquet")
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        found = bs.open(f"{tmp_path}/t").snapshot().scan().to_table()
        assert found["s"].to_pylist() == texts.to_pylist() * 3

    def test_nested_columns_that_differ_in_what_is_required_and_encoded(
        self, tmp_path: Path
    ) -> None:
        one, two = (pa.field(name, pa.int64(), nullable=False) for name in ("x", "y"))
        texts = pa.list_(pa.dictionary(pa.int32(), pa.string()))
        (tmp_path / "from").mkdir()
        for name, fields, kind in (("a", [one, two], texts), ("b", [one], pa.list_(pa.string()))):
            rows = {
                "inner": pa.array([{field.name: 1 for field in fields}], pa.struct(fields)),
                "many": pa.array([["t"]]).cast(kind),
            }
            pq.write_table(pa.table(rows), tmp_path / "from" / f"{name}.parquet")
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        assert bs.open(f"{tmp_path}/t").snapshot().scan().to_table().to_pylist() == [
            {"inner": {"x": 1, "y": 1}, "many": ["t"]},
            {"inner": {"x": 1, "y": None}, "many": ["t"]},
        ]

    def test_moments_as_spark_writes_them(self, tmp_path: Path) -> None:
        """INT96, within nested columns too, and with those beyond what nanoseconds reach."""
        rows = _moments(dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1), dt.datetime(2020, 1, 1))
        (tmp_path / "from").mkdir()
        for name, old in (("a", True), ("b", False)):
            pq.write_table(
                rows,
                tmp_path / "from" / f"{name}.parquet",
                use_deprecated_int96_timestamps=old,
                row_group_size=2,
            )
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        found = bs.open(f"{tmp_path}/t").snapshot().scan().to_table()
        assert found.drop(["a"]).to_pylist() == rows.drop(["a"]).to_pylist() * 2

    @pytest.mark.parametrize("name", ["x", "a.b", "many", "inner"])
    def test_digits_below_a_microsecond_of_old_moments_are_refused(
        self, tmp_path: Path, name: str
    ) -> None:
        rows = _moments(*[dt.datetime(2020, 1, 1)] * 3)
        place = rows.schema.get_field_index(name)
        wide = pa.array([0, 1, None], pa.timestamp("ns"))
        column = {
            "many": lambda: pa.ListArray.from_arrays([0, 1, 1, 3], wide),
            "inner": lambda: pa.StructArray.from_arrays([wide], ["at"]),
        }.get(name, lambda: wide)()
        pq.write_table(
            rows.set_column(place, name, column),
            tmp_path / "rows.parquet",
            use_deprecated_int96_timestamps=True,
        )
        said = rf"rows.parquet has a moment with digits below a microsecond in column '{name}'"
        with pytest.raises(Invalid, match=said):
            import_rows(open_source(f"{tmp_path}/rows.parquet"), f"{tmp_path}/t", Wanted())
        assert bs.open(f"{tmp_path}/t").snapshot().count() == 0


def _moments(*moments: dt.datetime) -> pa.Table:
    kind = pa.timestamp("us")
    column = pa.array(moments, kind)
    return pa.table(
        {
            "x": column,
            "a": pa.array([float("nan")] * len(moments)),
            "a.b": column,
            "many": pa.array([[one, None] for one in moments], pa.list_(kind)),
            "inner": pa.array([{"at": one} for one in moments], pa.struct([("at", kind)])),
        }
    )


@pytest.mark.parametrize(
    ("year", "said"), [(2020, None), (9999, "a year that nanoseconds do not reach in column 'x'")]
)
def test_old_moments_of_an_iceberg_table_that_took_files_over(
    tmp_path: Path, year: int, said: str | None
) -> None:
    rows = pa.table({"x": pa.array([dt.datetime(year, 12, 31)], pa.timestamp("us"))})
    catalog = load_catalog("made", type="in-memory", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("x")
    table = catalog.create_table("x.t", rows.schema, location=f"file://{tmp_path}/from")
    pq.write_table(rows, tmp_path / "rows.parquet")
    table.add_files([f"{tmp_path}/rows.parquet"])
    pq.write_table(rows, tmp_path / "rows.parquet", use_deprecated_int96_timestamps=True)
    if said is None:
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
        assert bs.open(f"{tmp_path}/t").snapshot().scan().to_table().equals(rows)
        return
    with pytest.raises(Invalid, match=said):
        import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())


def test_moments_of_a_delta_table_as_spark_writes_them(tmp_path: Path) -> None:
    far = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
    rows = pa.table({"x": pa.array([far], pa.timestamp("us", "UTC"))})
    deltalake.write_deltalake(str(tmp_path / "from"), rows)
    (file,) = (tmp_path / "from").glob("*.parquet")
    size = file.stat().st_size
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    (log,) = (tmp_path / "from" / "_delta_log").glob("*.json")
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))
    import_rows(open_source(f"{tmp_path}/from"), f"{tmp_path}/t", Wanted())
    assert bs.open(f"{tmp_path}/t").snapshot().scan().to_table()["x"].to_pylist() == [far]


class TestBadInput:
    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="there is nothing at"):
            open_source(f"{tmp_path}/nowhere")
        (tmp_path / "empty").mkdir()
        with pytest.raises(Invalid, match="no Parquet file"):
            open_source(f"{tmp_path}/empty")

    @pytest.mark.parametrize(
        ("form", "path"),
        [
            ("delta", "_delta_log/00000000000000000000.json"),
            ("iceberg", "metadata/v1.metadata.json"),
            ("parquet", "rows.parquet"),
        ],
    )
    def test_a_damaged_table(
        self,
        tmp_path: Path,
        form: str,
        path: str,
        blockstore: Command,  # noqa: F811
    ) -> None:
        (tmp_path / "t" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / path).write_bytes(b"{nonsense")
        with pytest.raises(Invalid, match=f"cannot be read as {form}"):
            list(open_source(f"{tmp_path}/t").batches())
        said = blockstore("import", f"{tmp_path}/t", f"{tmp_path}/made", code=1)
        assert len(said.err.strip().splitlines()) == 1, said.err
        assert not (tmp_path / "made").exists()

    def test_a_page_that_is_not_as_its_checksum_says(self, tmp_path: Path) -> None:
        (tmp_path / "rows.parquet").write_bytes(
            parquet_with_a_wrong_page(pa.table({"n": range(9)}))
        )
        with pytest.raises(Invalid, match=r"cannot be read as parquet: .*CRC checksum"):
            import_rows(open_source(f"{tmp_path}/rows.parquet"), f"{tmp_path}/t", Wanted())
        assert bs.open(f"{tmp_path}/t").snapshot().count() == 0

    def test_two_formats_in_one_folder(self, tmp_path: Path) -> None:
        _delta(tmp_path / "t")
        (tmp_path / "t" / "metadata").mkdir()
        (tmp_path / "t" / "metadata" / "v1.metadata.json").write_text("{}")
        with pytest.raises(Invalid, match="say which with --from"):
            open_source(f"{tmp_path}/t")
        assert len(list(open_source(f"{tmp_path}/t", "delta").batches())) > 0

    def test_a_file_that_is_gone_while_it_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "from").mkdir()
        _parquet(tmp_path / "from")
        found = open_source(f"{tmp_path}/from")
        (tmp_path / "from" / "b" / "rows.parquet").unlink()
        with pytest.raises(Invalid, match="cannot be read as parquet"):
            import_rows(found, f"{tmp_path}/t", Wanted())
        assert bs.open(f"{tmp_path}/t").snapshot().count() == 0

    def test_another_table_at_the_place(self, tmp_path: Path) -> None:
        pq.write_table(ROWS, tmp_path / "rows.parquet")
        table = bs.create(f"{tmp_path}/t", schema=ROWS.schema)
        table.append(ROWS)
        with pytest.raises(Conflict, match="choose another URL"):
            import_rows(open_source(f"{tmp_path}/rows.parquet"), f"{tmp_path}/t", Wanted())
        assert table.poll() == 2

    def test_a_type_that_no_table_has(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"x": pa.nulls(2)}), tmp_path / "rows.parquet")
        with pytest.raises(BlockstoreError, match="'x'"):
            import_rows(open_source(f"{tmp_path}/rows.parquet"), f"{tmp_path}/t", Wanted())
        assert not (tmp_path / "t").exists()


class TestDigest:
    def test_neither_order_nor_batches_count_but_each_value_does(self) -> None:
        def digest(*batches: pa.RecordBatch) -> tuple[int, int]:
            made = RowDigest()
            for batch in batches:
                made.add(batch)
            made.close()
            return made.value

        whole = ROWS.combine_chunks().to_batches()[0]
        turned = ROWS.take([3, 2, 1, 0, 5, 4]).combine_chunks().to_batches()[0]
        assert digest(whole) == digest(turned.slice(0, 1), turned.slice(1))
        for other in (
            whole.slice(1),
            ROWS.take([0, 0, 1, 2, 3, 4]).combine_chunks().to_batches()[0],
            whole.set_column(2, "text", pa.array(["a", None, None, "ä", "e", "f"])),
            whole.set_column(0, "id", pa.array([1, 0, 2, 3, 4, 5])),
        ):
            assert digest(whole) != digest(other)
            for name in ("batch", 'a "b"', "hash"):
                assert digest(whole.rename_columns([name, *whole.schema.names[1:]])) != digest(
                    other.rename_columns([name, *whole.schema.names[1:]])
                )


def test_a_table_that_was_imported_from_elsewhere_is_not_the_same(tmp_path: Path) -> None:
    """Neither where the source has other rows by now, nor where it is another one."""
    pq.write_table(ROWS, tmp_path / "one.parquet")
    wanted = Wanted(time_column="at")
    url = f"{tmp_path}/t?durable=false"
    import_rows(open_source(str(tmp_path / "one.parquet")), url, wanted)
    again = import_rows(open_source(str(tmp_path / "one.parquet")), url, wanted)
    assert (again.rows, again.version) == (None, 2)
    others = {
        "rows": ROWS.slice(1),
        "columns": ROWS.drop_columns(["money"]),
        "types": ROWS.select(["id"]),
        "values": ROWS.set_column(2, "text", pa.array(["a", None, "", "ä", "e", "g"])),
    }
    for name, other in others.items():
        pq.write_table(other, tmp_path / f"{name}.parquet")
        with pytest.raises(Conflict, match="choose another URL"):
            import_rows(open_source(str(tmp_path / f"{name}.parquet")), url, Wanted())


@pytest.mark.parametrize(
    "values",
    [
        [None, [], [None]],
        [[1, 2], [2, 1]],
        [[[1], [2]], [[1, 2]], [[], [1, 2]]],
        [{"x": None}, None],
        [["NULL"], [None]],
        [0.0, -0.0],
        pa.array([1, 2], pa.duration("ns")),
        pa.array([2**62, 2**62 + 1], pa.timestamp("ms", "UTC")),
        pa.array([2**62, 2**62 + 1], pa.duration("s")),
    ],
    ids=str,
)
def test_values_that_differ_have_other_digests(values: Any) -> None:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    found = set()
    for place in range(len(column)):
        with closing(RowDigest()) as digest:
            digest.add(pa.record_batch([column.slice(place, 1)], names=["c"]))
            found.add(digest.value)
    assert len(found) == len(column)


def test_a_column_of_the_files_and_of_the_folders_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s" / "id=9"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "rows.parquet")
    with pytest.raises(Invalid, match="column 'id' in its files and in the names of its folders"):
        open_source(str(tmp_path / "s"))


def test_an_iceberg_table_that_lost_a_manifest_is_refused_in_words(tmp_path: Path) -> None:
    _iceberg(tmp_path / "x" / "t")
    for lost in (tmp_path / "x" / "t" / "metadata").glob("*-m0.avro"):
        lost.unlink()
    with pytest.raises(Invalid, match="cannot be read as iceberg"):
        list(open_source(str(tmp_path / "x" / "t")).batches())


STRUCT = pa.struct([("a", pa.int32())])


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (pa.list_(STRUCT), True),
        (pa.map_(pa.string(), STRUCT), True),
        (pa.struct([("deep", pa.list_(pa.list_(STRUCT)))]), True),
        (pa.list_(pa.int32()), False),
        (pa.map_(pa.string(), pa.list_(pa.int32())), False),
        (pa.struct([("deep", STRUCT)]), False),
    ],
)
def test_a_column_whose_nulls_would_be_lost_is_refused(
    tmp_path: Path, kind: pa.DataType, refused: bool
) -> None:
    source = bs.create(f"{tmp_path}/source", schema=pa.schema([("x", kind)]))
    source.append(pa.table({"x": pa.array([None], kind)}))
    export_iceberg(source)
    where = str(tmp_path / "source")
    if refused:
        with pytest.raises(Invalid, match=r"column 'x' of .* a null there as an empty one"):
            open_source(where, "iceberg")
    else:
        import_rows(open_source(where, "iceberg"), str(tmp_path / "t"), Wanted())
        found = bs.open(str(tmp_path / "t")).snapshot().scan().to_table()
        assert found.to_pylist() == [{"x": None}]
