"""A client of the catalog that writes what a test wants: data files, manifests, commits."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket
from blockstore.export.iceberg.export import export_iceberg
from blockstore.export.iceberg.manifests import DATA, DataFile, Manifest, manifest, manifest_list
from blockstore.export.iceberg.metadata import written_at
from blockstore.export.iceberg.schema import schema_of
from blockstore.format.fields import FIELD_ID
from blockstore.reader.iceberg.commits.request import wanted_of
from blockstore.reader.iceberg.commits.wanted import Wanted
from blockstore.table import Table
from tests.reader.http.gateways import Served

_numbers = itertools.count(1)


def counted(served: Served) -> Counter[str]:
    """The gateway's count of commits, by how they ended."""
    head = "blockstore_iceberg_commits_total{outcome="
    lines = served.http.get("/metrics").text.splitlines()
    found = [line.removeprefix(head).split("} ") for line in lines if line.startswith(head)]
    return Counter({outcome.strip('"'): int(float(count)) for outcome, count in found})


def with_ids(rows: pa.Table, ids: Mapping[str, int] | None = None) -> pa.Table:
    """The rows as an engine writes them: each column with its field id, 1 and up."""
    known = ids or {name: place for place, name in enumerate(rows.schema.names, 1)}
    columns = [one.with_metadata({FIELD_ID: str(known[one.name]).encode()}) for one in rows.schema]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(columns))


@dataclass
class Engine:
    """An engine that has loaded a table."""

    table: Table
    base: int = 0
    exported: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loaded_again()

    @property
    def bucket(self) -> Bucket:
        return self.table.bucket

    @property
    def location(self) -> str:
        return str(self.exported["location"])

    def path(self, key: str) -> str:
        return f"{self.location}/{key}"

    def data(self, rows: pa.Table, *, said: int | None = None, **labels: str) -> DataFile:
        """A data file of these rows; the manifest says that it has ``said`` rows."""
        out = io.BytesIO()
        pq.write_table(rows if rows.schema.field(0).metadata else with_ids(rows), out)
        return self.file(out.getvalue(), rows.num_rows if said is None else said, **labels)

    def file(self, data: bytes, rows: int, **labels: str) -> DataFile:
        """A data file of these bytes."""
        key = f"{written_at(self.base)}data/{next(_numbers)}.parquet"
        self.bucket.put(key, data)
        return DataFile(path=self.path(key), rows=rows, size=len(data), labels=labels)

    def manifest(
        self, files: Iterable[DataFile], *, labels: Iterable[str] = (), content: int = DATA
    ) -> str:
        """Write a manifest of these files; returns its path."""
        definition = self.table.definition
        schema = schema_of(definition.schema, labels, definition.schema_id)
        _, data = manifest(list(files), schema, labels, content=content)
        key = f"incoming/metadata/{next(_numbers)}.avro"
        self.bucket.put(key, data)
        return self.path(key)

    def before(self) -> list[str]:
        """The paths of the manifests of the version that it has loaded."""
        (key,) = [info.key for info in self.bucket.list(f"metadata/snap-{self.base}-")]
        rows = fastavro.reader(io.BytesIO(self.bucket.get(key).data))
        return [str(row["manifest_path"]) for row in rows]

    def list_of(
        self, manifests: Iterable[str], *, contents: Mapping[str, int] | None = None
    ) -> str:
        """Write a list of manifests; returns its path."""
        listed = [
            Manifest(
                name=path,
                size=1,
                content=(contents or {}).get(path, DATA),
                files=1,
                rows=1,
                labels=(),
            )
            for path in manifests
        ]
        _, data = manifest_list(listed, "", 1)
        # The folder is a part of every name.
        reader = fastavro.reader(io.BytesIO(data))
        rows = [{**row, "manifest_path": row["manifest_path"].removeprefix("/")} for row in reader]
        out = io.BytesIO()
        fastavro.writer(out, reader.writer_schema, rows)
        key = f"incoming/metadata/snap-{next(_numbers)}.avro"
        self.bucket.put(key, out.getvalue())
        return self.path(key)

    def body(self, manifest_list: str, **more: Any) -> dict[str, Any]:
        """The body of a commit."""
        snapshot = {
            "snapshot-id": 10**15 + next(_numbers),
            "parent-snapshot-id": self.base,
            "sequence-number": self.base + 1,
            "timestamp-ms": self.table.world.clock.now_ms(),
            "manifest-list": manifest_list,
            "summary": {"operation": "append"},
            "schema-id": 0,
            **more,
        }
        return {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": self.base},
                {"type": "assert-table-uuid", "uuid": self.exported["table-uuid"]},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": snapshot["snapshot-id"],
                },
            ],
        }

    def loaded_again(self) -> None:
        """Load the table again: the next commit is on top of what it shows now."""
        made = export_iceberg(self.table)
        self.base, self.exported = made.version, json.loads(made.document)

    def append(self, *files: DataFile, labels: Iterable[str] = ()) -> dict[str, Any]:
        """The body of a commit that appends these files."""
        own = [self.manifest(files, labels=labels)] if files else []
        return self.body(self.list_of([*self.before(), *own]))

    def instead(self, *files: DataFile) -> dict[str, Any]:
        """The body of a commit that replaces all files of the table by these."""
        return self.body(self.list_of([self.manifest(files)] if files else []))

    def files(self) -> list[str]:
        """The paths of the table's files at the version that it has loaded."""
        found = []
        for path in self.before():
            key = path.removeprefix(f"{self.location}/")
            rows = fastavro.reader(io.BytesIO(self.bucket.get(key).data))
            found += [str(row["data_file"]["file_path"]) for row in rows]
        return found

    def without(self, path: str, *files: DataFile) -> dict[str, Any]:
        """The body of a commit that replaces one file of the table by these."""
        kept = [DataFile(path=one, rows=1, size=1) for one in self.files() if one != path]
        return self.body(self.list_of([self.manifest([*kept, *files])]))

    def wanted(self, body: Mapping[str, Any]) -> Wanted:
        found = wanted_of(body, "t")
        assert isinstance(found, Wanted)
        return found
