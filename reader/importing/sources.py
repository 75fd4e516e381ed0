"""Tables of other formats, as streams of rows.

Rules:
- Each format is read by its own library: Iceberg by PyIceberg, Delta by deltalake, Parquet files by
  pyarrow. So deletes, column mapping and evolution are theirs.
- Parquet files may differ: a column that some lack is null there, and the widest type holds.
  Folders called ``name=value`` are columns, those above the source are not.
- No value is changed: a column that a library is known to read wrongly is refused.
- What a format says of a column besides name, type and null is not taken over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pd
import pyarrow.fs as fs
import pyarrow.parquet as pq

from blockstore.errors import Invalid, NotFound
from blockstore.extras import missing
from blockstore.format.int96 import UNIT, check_int96, int96_columns
from blockstore.format.types import canonical_type

Form: TypeAlias = Literal["parquet", "iceberg", "delta"]

_METADATA = ".metadata.json"
_NUMBER = re.compile(r"v?(\d+)")
_BATCH_ROWS = 65_536
_CHECKED = pd.ParquetFileFormat(
    read_options=pd.ParquetReadOptions(coerce_int96_timestamp_unit=UNIT),
    default_fragment_scan_options=pd.ParquetFragmentScanOptions(page_checksum_verification=True),
)
"""Pages that have a checksum are checked by it: a bit that has changed would become ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Rows to import."""

    url: str
    form: Form
    schema: pa.Schema
    read: Callable[[], Iterator[pa.RecordBatch]]
    """Begin to read, from the first row on."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the first on. Raises Invalid where they cannot be read."""
        with _reading(self.url, self.form):
            rows = self.read()
        while True:
            with _reading(self.url, self.form):
                batch = next(rows, None)
            if batch is None:
                return
            yield batch


def open_source(url: str, form: Form | None = None) -> Source:
    """Open a table of another format.

    Args:
        url: Its folder, a Parquet file, or the metadata file of an Iceberg table: a path, or a URL
            of a file system that pyarrow knows.
        form: Its format, where the folder does not show it.

    Raises:
        NotFound: There is nothing.
        Invalid: It is no such table, or two of them.
        MissingExtra: The library of the format is not installed.
    """
    place = _Place.of(url)
    chosen = form or place.form()
    with _reading(url, chosen):
        match chosen:
            case "delta":
                return _delta(url)
            case "iceberg":
                return _iceberg(url, place.metadata())
            case "parquet":
                return _parquet(url, place)


@dataclass(frozen=True, slots=True)
class _Place:
    """A path of a file system."""

    url: str
    files: fs.FileSystem
    path: str
    is_file: bool

    @classmethod
    def of(cls, url: str) -> _Place:
        try:
            files, path = fs.FileSystem.from_uri(url) if "://" in url else _local(url)
            found = files.get_file_info(path)
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{url} cannot be read: {_first_line(error)}") from error
        if found.type == fs.FileType.NotFound:
            raise NotFound(f"there is nothing at {url}: check the path")
        return cls(url, files, path, found.type == fs.FileType.File)

    def form(self) -> Form:
        """The format that the files show. Raises Invalid for a folder of two tables."""
        if self.is_file:
            return "iceberg" if self.path.endswith(_METADATA) else "parquet"
        is_delta = self._is_folder("_delta_log")
        is_iceberg = bool(self._metadata_files())
        if is_delta and is_iceberg:
            raise Invalid(f"{self.url} is a table of Iceberg and of Delta: say which with --from")
        return "delta" if is_delta else "iceberg" if is_iceberg else "parquet"

    def metadata(self) -> str:
        """The newest metadata file of an Iceberg table. Raises Invalid."""
        if self.is_file:
            return self.url
        found = self._metadata_files()
        if not found:
            raise Invalid(f"{self.url} has no file metadata/*{_METADATA}: it is no Iceberg table")
        newest = max(found, key=lambda one: (_number(one.base_name), one.mtime_ns or 0))
        return f"{self.url.rstrip('/')}/metadata/{newest.base_name}"

    def _metadata_files(self) -> list[fs.FileInfo]:
        selector = fs.FileSelector(f"{self.path}/metadata", allow_not_found=True)
        return [
            one for one in self.files.get_file_info(selector) if one.base_name.endswith(_METADATA)
        ]

    def _is_folder(self, name: str) -> bool:
        return bool(self.files.get_file_info(f"{self.path}/{name}").type == fs.FileType.Directory)


def _local(url: str) -> tuple[fs.FileSystem, str]:
    from pathlib import Path

    return fs.LocalFileSystem(), str(Path(url).resolve())


def _parquet(url: str, place: _Place) -> Source:
    files: dict[str, Any] = {
        "source": place.path,
        "filesystem": place.files,
        "format": _CHECKED,
    }
    found = pd.dataset(**files)
    fragments = list(found.get_fragments())
    schemas = [fragment.physical_schema for fragment in fragments]
    old = [fragment.path for fragment in fragments if int96_columns(fragment.metadata)]
    if not schemas:
        raise Invalid(f"there is no Parquet file at {url}")
    twice = {one for schema in schemas for one in schema.names} & {
        folder.partition("=")[0]
        for path in found.files
        for folder in path.removeprefix(place.path).split("/")[:-1]
        if "=" in folder
    }
    if twice:
        raise Invalid(
            f"{url} has the column {min(twice)!r} in its files and in the names of its folders: "
            "which of them holds is not clear"
        )
    if not place.is_file:
        # Of a single file pyarrow would take the folders above it, up to the root.
        files["partitioning"] = "hive"
    folders = [one for one in pd.dataset(**files).schema if one.name not in schemas[0].names]
    schema = _unified(schemas, folders)
    rows = pd.dataset(**files, schema=schema)

    def read() -> Iterator[pa.RecordBatch]:
        for path in old:
            check_int96(path, partial(_opened, place.files, path))
        batches: Iterator[pa.RecordBatch] = rows.to_batches(
            batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )
        return batches

    return Source(url=url, form="parquet", schema=_plain(schema), read=read)


def _unified(schemas: list[pa.Schema], folders: list[pa.Field]) -> pa.Schema:
    """The columns of all files: each has the widest type, and is required where no file lacks it or
    may have nulls."""
    plain = [
        pa.schema([pa.field(field.name, _mergeable(field)) for field in one]) for one in schemas
    ]
    required = [{field.name for field in one if not field.nullable} for one in schemas]
    always = set.intersection(*required)
    unified = pa.unify_schemas([*plain, pa.schema(folders)], promote_options="permissive")
    return pa.schema([field.with_nullable(field.name not in always) for field in unified])


def _mergeable(field: pa.Field) -> pa.DataType:
    """Its type without encodings, and without fields that are required within it: another file may
    lack them."""
    if isinstance(field.type, pa.BaseExtensionType):
        return field.type
    try:
        return canonical_type(field.type, field.name)
    except Invalid:
        return field.type


def _opened(files: fs.FileSystem, path: str, unit: str) -> pq.ParquetFile:
    return pq.ParquetFile(
        path, filesystem=files, page_checksum_verification=True, coerce_int96_timestamp_unit=unit
    )


def _delta(url: str) -> Source:
    try:
        from deltalake import DeltaTable, QueryBuilder
    except ModuleNotFoundError as error:
        raise missing(error, "an import from Delta", "import") from error
    table = DeltaTable(url)

    def read() -> Any:
        asked = QueryBuilder()
        # Spark writes INT96, and 9999-12-31 would wrap in nanoseconds.
        list(asked.execute(f"SET datafusion.execution.parquet.coerce_int96 = '{UNIT}'"))
        rows = asked.register("source", table).execute("SELECT * FROM source")
        return pa.RecordBatchReader.from_stream(rows)

    return Source(url=url, form="delta", schema=_plain(read().schema), read=read)


def _iceberg(url: str, metadata: str) -> Source:
    try:
        from pyiceberg.table import StaticTable
    except ModuleNotFoundError as error:
        raise missing(error, "an import from Iceberg", "import") from error
    table = StaticTable.from_metadata(metadata)
    schema = _plain(table.schema().as_arrow())
    for field in schema:
        if _loses_nulls(field.type):
            raise Invalid(
                f"column {field.name!r} of {url} has a list or a map of structs, and PyIceberg "
                "reads a null there as an empty one: write the rows to Parquet files or to Delta "
                "with another engine, and import those"
            )

    def read() -> Any:
        scan = table.scan()
        if table.name_mapping() is not None:
            # Files that Iceberg has not written: only these may have INT96, which PyIceberg reads
            # in nanoseconds.
            for task in scan.plan_files():
                if task.file.file_format.name == "PARQUET":
                    stored = table.io.new_input(task.file.file_path)
                    check_int96(stored.location, partial(_opened_input, stored), reach="ns")
        return scan.to_arrow_batch_reader()

    return Source(url=url, form="iceberg", schema=schema, read=read)


def _loses_nulls(kind: pa.DataType, *, repeated: bool = False) -> bool:
    """Whether a struct is within a list or a map."""
    if pa.types.is_struct(kind) and repeated:
        return True
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    repeated = repeated or not pa.types.is_struct(kind)
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
    return any(_loses_nulls(one, repeated=repeated) for one in inner)


def _opened_input(stored: Any, unit: str) -> pq.ParquetFile:
    return pq.ParquetFile(stored.open(), coerce_int96_timestamp_unit=unit)


@contextmanager
def _reading(url: str, form: Form) -> Iterator[None]:
    """Say what cannot be read, whatever the libraries raise."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError, RuntimeError) as error:
        raise Invalid(f"{url} cannot be read as {form}: {_first_line(error)}") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("deltalake", "pyiceberg", "_internal"):
            raise
        raise Invalid(f"{url} cannot be read as {form}: {_first_line(error)}") from error


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(one.name, one.type, one.nullable) for one in schema])


def _number(name: str) -> int:
    found = _NUMBER.match(name)
    return int(found[1]) if found else 0


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
