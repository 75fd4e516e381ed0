"""The files that a client's snapshot adds to the export that it loaded, and those that it leaves
out.

Rules:
- Manifests that the export has too say nothing new, and are not read: the cost of a commit follows
  from what it changes.
- A file that the export lists and no manifest of the client does is left out. A file that the
  export does not list is new, and must be where the table lets engines write.
- A file that is listed twice, is not in the table, or is a delete file of the client is refused.
- One version may have been exported twice, with the same files in other manifests: by two releases,
  or with two libraries that compress. Which of them a client has loaded is not known.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from blockstore.bucket.api import Bucket
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.export.iceberg.export import METADATA
from blockstore.export.iceberg.manifests import DATA
from blockstore.export.iceberg.metadata import version_of
from blockstore.extras import load
from blockstore.format.labels import Labels
from blockstore.names import INCOMING
from blockstore.reader.iceberg.commits.expanded import check_expanded
from blockstore.reader.iceberg.commits.narrowed import narrowed
from blockstore.reader.iceberg.commits.wanted import NOTHING, Wanted

_MOST_BYTES = 32 << 20
"""The largest manifest that is read."""
_MOST_FILES = 100_000
_DELETED = 2
_FILE = re.compile("^file:/+")
"""Hadoop writes the URL of a local file with one slash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A data file of a client."""

    key: str
    rows: int
    labels: Labels
    unlabelled: tuple[str, ...] = ()
    """Labels of its partition that its rows do not have; they may be columns of it all the same."""
    read: int
    """The version that its writer had loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a client's snapshot changes."""

    added: tuple[NewFile, ...]
    removed: frozenset[str]
    """The keys of chunks."""
    objects: frozenset[str]
    """The keys of the client's manifests, and of its list of them."""


def difference(bucket: Bucket, location: str, wanted: Wanted) -> Difference:
    """Compare the last snapshot of a client with the export of the version that it loaded;
    ``location`` is the table's URL, with which all paths begin.

    Raises:
        Conflict: The export of that version is not there any more.
        Invalid: The snapshot names something that is not in the table, or cannot be read.
    """
    place = _Place(bucket, location)
    base, key = wanted.base, place.key(wanted.manifest_list, INCOMING)
    exported = place.exported(base)
    before = {path for listed in exported for path in place.manifests(listed, METADATA)}
    now = place.manifests(key, "")
    left_out = place.data_files(before - set(now))
    if len(exported) > 1:
        left_out -= place.data_files(before & set(now))
    added: dict[str, NewFile] = {}
    kept: set[str] = set()
    objects = {key, *place.written(wanted.between)}
    for path, content in now.items():
        if path in before:
            continue
        objects.add(place.key(path, INCOMING))
        for one in place.files(path):
            found = place.key(one.path, "")
            if content != DATA:
                if found.startswith(INCOMING):
                    raise Invalid(
                        "the commit adds delete files, and this table takes whole files in the "
                        "place of others: set write.delete.mode, write.update.mode and "
                        "write.merge.mode to copy-on-write"
                    )
            elif found in kept or found in added:
                raise Invalid(f"the commit lists the file {found} twice")
            elif found.startswith(INCOMING):
                added[found] = _new_file(found, one, base)
            elif found in left_out:
                kept.add(found)
            else:
                raise Invalid(
                    f"the commit lists the file {found[:300]}, which version {base} of the table "
                    f"does not have: an engine puts new files below {INCOMING}"
                )
            if len(added) > _MOST_FILES:
                raise Invalid(f"a commit adds at most {_MOST_FILES:,} files: commit in several")
    return Difference(
        added=tuple(added.values()),
        removed=frozenset(left_out - kept),
        objects=frozenset(objects),
    )


class _Place:
    """The files of one table, by the paths that engines use."""

    def __init__(self, bucket: Bucket, location: str) -> None:
        self._bucket = bucket
        self._location = location
        self._contents: dict[str, int] = {}

    def key(self, path: str, folder: str) -> str:
        """The key of a path. Raises Invalid unless it is in a folder of the table."""
        start = f"{self._location}/{folder}"
        plain = _FILE.sub("file:///", path)
        parts = plain.split("/")
        if not plain.startswith(start) or ".." in parts or "." in parts:
            raise Invalid(
                f"the path {path[:300]!r} is not below {start}, and nothing was committed"
            )
        return plain.removeprefix(f"{self._location}/")

    def exported(self, version: int) -> list[str]:
        """The keys of the lists of manifests that were exported for a version."""
        if version == NOTHING:
            return []
        found = [info.key for info in self._bucket.list(f"{METADATA}snap-{version}-")]
        if not found:
            raise Conflict(
                f"version {version}, which the client has loaded, is not exported any more: load "
                "the table again"
            )
        return found

    def manifests(self, key: str, folder: str) -> dict[str, int]:
        """The paths of a list's manifests, with the content of each."""
        found = {}
        for _, row in self._rows(key):
            with _readable(key):
                path, content = str(row["manifest_path"]), int(row.get("content") or DATA)
            self.key(path, folder)
            found[path] = self._contents[path] = content
        return found

    def written(self, lists: Iterable[str]) -> Iterator[str]:
        """The keys of lists of manifests, and of those manifests that a client has written."""
        for path in lists:
            key = self.key(path, INCOMING)
            yield key
            named = (self.key(one, "") for one in self.manifests(key, ""))
            yield from (one for one in named if one.startswith(INCOMING))

    def data_files(self, manifests: Iterable[str]) -> set[str]:
        """The keys of the data files of manifests that were listed before."""
        listing = [path for path in manifests if self._contents[path] == DATA]
        return {self.key(one.path, "") for path in listing for one in self.files(path)}

    def files(self, path: str) -> Iterator[_Listed]:
        """The files that a manifest says are in its snapshot."""
        key = self.key(path, "")
        for header, row in self._rows(key):
            with _readable(key):
                one = _listed(header, row)
            if one is not None:
                yield one

    def _rows(self, key: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, Any]]]:
        """The rows of an Avro file, each with the file's header."""
        reader = load("fastavro", "reader", "a commit of another engine")
        with _readable(key):
            size = self._bucket.head(key).size
            if size > _MOST_BYTES:
                raise Invalid(
                    f"the manifest {key} has {size:,} bytes, more than {_MOST_BYTES:,}: commit "
                    "fewer files at once"
                )
            data = io.BytesIO(self._bucket.get(key).data)
            rows = reader(data)
            check_expanded(data, rows.codec, key)
            wanted = narrowed(rows.writer_schema, key)
            data.seek(0)
            for row in reader(data, wanted):
                yield rows.metadata, row


@contextmanager
def _readable(key: str) -> Iterator[None]:
    """Raises Invalid for whatever is wrong with a manifest."""
    try:
        yield
    except NotFound as error:
        raise Invalid(f"the commit names {key}, which is not there") from error
    except BlockstoreError:
        raise
    except Exception as error:
        raise Invalid(f"the file {key} cannot be read as a manifest ({error!r:.200})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A file, as a manifest lists it."""

    path: str
    rows: int
    kind: str
    deletes: bool
    labels: dict[str, str | None]


def _listed(header: Mapping[str, str], row: Mapping[str, Any]) -> _Listed | None:
    """What a row of a manifest says; None for a file that is gone."""
    if row["status"] == _DELETED:
        return None
    file = row["data_file"]
    spec = json.loads(header.get("partition-spec", "[]"))
    fields = spec["fields"] if isinstance(spec, dict) else spec
    values = (file.get("partition") or {}).values()
    return _Listed(
        path=str(file["file_path"]),
        rows=int(file["record_count"]),
        kind=str(file.get("file_format")).upper(),
        deletes=bool(file.get("content")),
        labels={
            str(one["name"]): None if value is None else str(value)
            for one, value in zip(fields, values, strict=True)
        },
    )


def _new_file(key: str, said: _Listed, base: int) -> NewFile:
    if said.deletes:
        raise Invalid(f"{key} is a delete file in a manifest of data files")
    if said.kind != "PARQUET":
        raise Invalid(f"{key} is not a Parquet file, and this table takes no others")
    labels = sorted(said.labels.items())
    return NewFile(
        key=key,
        rows=said.rows,
        labels=tuple((name, value) for name, value in labels if value is not None),
        unlabelled=tuple(name for name, value in labels if value is None),
        read=min(base, version_of(key) or base),
    )
