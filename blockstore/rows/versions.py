"""Former versions of rows: given ones, and all of one row.

Rules:
- A version of a row is found wherever merges have carried it, as long as it is kept.
- A version in which a row was deleted is one too: its columns are null, and ``_deleted`` is true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Invalid, NotFound
from blockstore.format.identity import VERSION, Identity, RowIds
from blockstore.predicate import parse_filters
from blockstore.rows.attempts import identity_of
from blockstore.rows.reading import column_like
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

_SHOWN = 3


def fetch(
    bucket: ReadBucket, world: World, snapshot: Snapshot, rows: Iterable[tuple[Any, int]]
) -> pa.Table:
    """Return given versions of given rows, in the order in which they are named.

    Args:
        bucket: The table's store.
        world: The process.
        snapshot: Its version limits what is found.
        rows: Pairs of a row id (or a key of one column, or a tuple of the key's columns) and a
            version.

    Raises:
        NotFound: A pair never was, or is no longer kept.
    """
    identity = identity_of(snapshot.definition, "a fetch of versions")
    pairs = [(one if isinstance(one, tuple) else (one,), version) for one, version in rows]
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
    found = _versions(bucket, world, snapshot, identity, given)
    wanted = identities([*given, versions])
    own = identities([*(found[name] for name in identity.columns), found[VERSION]])
    places = pc.index_in(wanted, value_set=own)
    if places.null_count:
        lost = [pair for pair, at in zip(pairs, places.to_pylist(), strict=True) if at is None]
        shown = ", ".join(
            f"row {one[0] if len(one) == 1 else one!r} at version {version}"
            for one, version in lost[:_SHOWN]
        )
        raise NotFound(
            f"{len(lost):,} of the versions are not in the table: {shown}"
            f"{', …' if len(lost) > _SHOWN else ''}; they never were, or are no longer kept"
        )
    return found.take(places)


def row_history(bucket: ReadBucket, world: World, snapshot: Snapshot, row: Any) -> pa.Table:
    """Return all versions of a row that are kept, the newest first. Raises NotFound if there is
    none."""
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
    found = _versions(bucket, world, snapshot, identity, given)
    if not found.num_rows:
        raise NotFound(f"row {row!r} was never in the table, or none of its versions is kept")
    return found.sort_by([(VERSION, "descending")])


def _versions(
    bucket: ReadBucket,
    world: World,
    snapshot: Snapshot,
    identity: Identity,
    given: list[pa.Array],
) -> pa.Table:
    """All versions that are kept of the rows with these identities."""
    hidden = dict.fromkeys((*identity.columns, VERSION))
    columns = [*snapshot.definition.schema.names]
    columns += [name for name in hidden if name not in columns]
    values = identities(given)
    where = None
    if isinstance(identity, RowIds) and len(values):
        bounds = pc.min_max(values).as_py()
        name = identity.columns[0]
        where = parse_filters(
            [(name, ">=", bounds["min"]), (name, "<=", bounds["max"])], snapshot.columns.all
        )
    plan = plan_scan(snapshot, columns=columns, where=where, every_version=True)
    found = [
        batch.filter(pc.is_in(own, value_set=values))
        for batch in read_plan(bucket, plan, world)
        for own in [identities([batch.column(name) for name in identity.columns])]
    ]
    return pa.Table.from_batches(found, plan.output_schema)


def _kind(snapshot: Snapshot, name: str) -> pa.DataType:
    found: pa.DataType = snapshot.columns.all.field(name).type
    return found
