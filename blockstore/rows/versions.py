"""Former versions of rows: given ones, and all of one row.

Rules:
- A version of a row is found wherever merges have carried it, as long as it is kept.
- A version in which a row was deleted is one too: its columns are null, and ``_deleted`` is true.
- Labels are columns of what is found. A key names rows of all labels, unless the caller names them;
  where one row is wanted and several are found, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Invalid, NotFound
from blockstore.format.identity import DELETED, VERSION, Identity, RowIds
from blockstore.format.value_text import row_text, value_text
from blockstore.predicate import Predicate
from blockstore.rows.attempts import identity_of
from blockstore.rows.reading import column_like, range_of
from blockstore.rows.streams import stream_of
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import plan_scan
from blockstore.scan.reads import Reads
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

_SHOWN = 3


def fetch(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    rows: Iterable[tuple[Any, int]],
    *,
    labels: Mapping[str, str] | None = None,
    reads: Reads | None = None,
) -> pa.Table:
    """Return given versions of given rows, in the order in which they are named.

    Args:
        bucket: The table's store.
        world: The process.
        snapshot: Its version limits what is found.
        rows: Pairs of a row id (or a key of one column, or a tuple of the key's columns) and a
            version.
        labels: On a table with a key, those of the rows; None for any.
        reads: What keeps bytes between lookups; None to keep nothing.

    Raises:
        NotFound: A pair never was, or is no longer kept.
        Invalid: A pair names several rows, which have different labels.
    """
    identity = identity_of(snapshot.definition, "a fetch of versions")
    pairs = [(one if isinstance(one, tuple) else (one,), version) for one, version in _pairs(rows)]
    if any(len(one) != len(identity.columns) for one, _ in pairs):
        raise Invalid(
            f"a row of this table is named by ({', '.join(identity.columns)}): give one value for "
            "each"
        )
    given = [
        column_like([one[place] for one, _ in pairs], _kind(snapshot, name), name)
        for place, name in enumerate(identity.columns)
    ]
    versions = column_like([version for _, version in pairs], pa.int64(), VERSION)
    found = _versions(bucket, world, snapshot, identity, given, labels, reads)
    wanted = identities([*given, versions])
    own = identities([*(found[name] for name in identity.columns), found[VERSION]])
    places = pc.index_in(wanted, value_set=own)
    if places.null_count:
        lost = [pair for pair, at in zip(pairs, places.to_pylist(), strict=True) if at is None]
        shown = ", ".join(
            f"row {row_text(one)} at version {version}" for one, version in lost[:_SHOWN]
        )
        raise NotFound(
            f"{len(lost):,} of the versions are not in the table: {shown}"
            f"{', …' if len(lost) > _SHOWN else ''}; they never were, or are no longer kept"
        )
    hits = own.filter(pc.is_in(own, value_set=wanted))
    if len(hits) > len(pc.unique(hits)):
        raise Invalid(
            "some of these versions are those of several rows, which have one key and different "
            "labels: name the labels"
        )
    return found.take(places)


def row_at(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    row: Any,
    *,
    version: int | None = None,
    labels: Mapping[str, str] | None = None,
    reads: Reads | None = None,
) -> pa.Table:
    """Return a row as it is, or as it was in a version. Raises NotFound, and Invalid where several
    rows with different labels have this key."""
    if version is not None:
        return fetch(bucket, world, snapshot, [(row, version)], labels=labels, reads=reads)
    found = row_history(bucket, world, snapshot, row, labels=labels, reads=reads)
    named = [*snapshot.columns.labels, VERSION]
    rows = [tuple(one.values())[:-1] for one in found.select(named).to_pylist()]
    newest = found.take([rows.index(labels) for labels in dict.fromkeys(rows)])
    now = newest.filter(pc.invert(newest[DELETED]))
    if not now.num_rows:
        raise NotFound(
            f"row {row_text(row)} was deleted in version {newest[VERSION][0]}: name a version for "
            "what it was before"
        )
    if now.num_rows > 1:
        labelled = now.select(snapshot.columns.labels).to_pylist()[:_SHOWN]
        shown = ", ".join(map(value_text, labelled))
        raise Invalid(
            f"{now.num_rows} rows have the key {row_text(row)}, with the labels {shown}: name the "
            "labels"
        )
    return now


def row_history(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    row: Any,
    *,
    labels: Mapping[str, str] | None = None,
    reads: Reads | None = None,
) -> pa.Table:
    """Return all versions of a row that are kept, the newest first; on a table with a key those of
    rows with any labels, unless these are named. Raises NotFound if there is none."""
    identity = identity_of(snapshot.definition, "a row's history")
    one = row if isinstance(row, tuple) else (row,)
    if len(one) != len(identity.columns):
        raise Invalid(
            f"a row of this table is named by ({', '.join(identity.columns)}): give one value for "
            "each"
        )
    given = [
        column_like([value], _kind(snapshot, name), name)
        for value, name in zip(one, identity.columns, strict=True)
    ]
    found = _versions(bucket, world, snapshot, identity, given, labels, reads)
    if not found.num_rows:
        raise NotFound(
            f"row {row_text(row)} was never in the table, or none of its versions is kept"
        )
    return found.sort_by([(VERSION, "descending")])


def _versions(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    identity: Identity,
    given: list[pa.Array],
    labels: Mapping[str, str] | None,
    reads: Reads | None,
) -> pa.Table:
    """All versions that are kept of the rows with these identities."""
    hidden = dict.fromkeys((*identity.columns, VERSION))
    columns = [*snapshot.columns.visible.names]
    columns += [name for name in hidden if name not in columns]
    values = identities(given)
    where = _range_of_rows(snapshot, identity, given)
    plan = plan_scan(snapshot, columns=columns, where=where, every_version=True)
    if labels is not None:
        if isinstance(identity, RowIds):
            raise Invalid("a row id says which row is meant, whatever its labels: leave labels out")
        stream = stream_of(snapshot.definition, labels)
        plan = replace(plan, chunks=tuple(one for one in plan.chunks if one.stream == stream))
    found = [
        batch.filter(pc.is_in(own, value_set=values))
        for batch in read_plan(bucket, plan, world, reads=reads)
        for own in [identities([batch.column(name) for name in identity.columns])]
    ]
    return pa.Table.from_batches(found, plan.output_schema)


def _range_of_rows(
    snapshot: Snapshot, identity: Identity, given: list[pa.Array]
) -> Predicate | None:
    """A condition that the rows with these identities meet; it names a row if that is one."""
    found = None
    for name, values in zip(identity.columns, given, strict=True):
        own = range_of(snapshot, (name,), values)
        if own is not None:
            found = own if found is None else found.also(own)
    return found


def _kind(snapshot: Snapshot, name: str) -> pa.DataType:
    found: pa.DataType = snapshot.columns.all.field(name).type
    return found


def _pairs(rows: Any) -> list[tuple[Any, int]]:
    """The pairs. Raises Invalid for what is none."""
    several = isinstance(rows, Iterable) and not isinstance(rows, str)
    given: list[Any] = list(rows) if several else [rows]
    for one in given:
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise Invalid(
                f"a fetch of versions names {one!r:.100}, expected pairs of a row (its id or key) "
                "and a version"
            )
    return given
