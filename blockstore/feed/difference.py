"""The difference of two states, row by row.

Rules:
- Rows that have an identity are the same if they have one identity and one version, wherever they
  are. Of one identity in both states with two versions the later one is an update.
- Rows without one are counted: a row that both states show equally often has no change.
- No row is held in memory: of rows with an identity the identities of some millions, of others 16
  bytes each, and 1 byte for each row that is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from blockstore.errors import VersionExpired
from blockstore.feed.entries import Replaced, between
from blockstore.feed.equal_rows import Mask, unequal
from blockstore.feed.form import Form, Kind
from blockstore.format.identity import VERSION, Identity
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.two_versions import shown_elsewhere, without
from blockstore.scan.execute import read_plan, resolve
from blockstore.scan.plan import ScanPlan, plan_scan


def difference(
    access: Access, form: Form, replaced: Replaced, *, images: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the changes from one state to a later one; with ``images`` also how rows that were
    updated had been."""
    identity = form.definition.identity
    if identity is None:
        yield from _by_count(access, form, replaced)
    else:
        yield from _by_identity(access, form, identity, replaced, images)


def _by_identity(
    access: Access, form: Form, identity: Identity, replaced: Replaced, images: bool
) -> Iterator[pa.RecordBatch]:
    then, now = (_current(access, form, state) for state in (replaced.before, replaced.after))
    gone, came = shown_elsewhere(then, now), shown_elsewhere(now, then)
    same = tuple(dict.fromkeys((*identity.columns, VERSION)))
    gone, came = without(access, gone, came, same), without(access, came, gone, same)
    deleted = without(access, gone, came, identity.columns)
    inserted = without(access, came, gone, identity.columns)
    parts = [(deleted, Kind.DELETE)]
    parts += [(shown_elsewhere(gone, deleted), Kind.UPDATE_BEFORE)] if images else []
    parts += [(inserted, Kind.INSERT), (shown_elsewhere(came, inserted), Kind.UPDATE)]
    for plan, kind in parts:
        for batch in _read(access, replace(plan, output_schema=form.rows)):
            yield from form.batches(batch, kind, replaced.moment)


def _current(access: Access, form: Form, state: State) -> ScanPlan:
    """The current rows of a state."""
    if state.table is not None and not state.table.identifies_as(form.definition):
        raise VersionExpired(
            f"version {state.version} is of a time when rows were not identified as they are now: "
            "read the table as it is, and its changes from then on"
        )
    names = dict.fromkeys((*form.rows.names, VERSION))
    plan = plan_scan(form.snapshot(state.blocks), columns=names, labels=form.labels)
    return resolve(access.bucket, plan, access.world)


def _by_count(access: Access, form: Form, replaced: Replaced) -> Iterator[pa.RecordBatch]:
    gone, came = (form.plan_shown(shown) for shown in between(replaced))
    left: tuple[Mask | None, Mask | None] = (None, None)
    if gone.chunks and came.chunks:
        left = unequal(
            lambda: _read(access, gone), lambda: _read(access, came), gone.rows + came.rows
        )
    for plan, mask, kind in zip((gone, came), left, (Kind.DELETE, Kind.INSERT), strict=True):
        first = 0
        for batch in _read(access, plan):
            last = first + batch.num_rows
            rows = batch if mask is None else batch.filter(pa.array(mask[first:last]))
            first = last
            yield from form.batches(rows, kind, replaced.moment)


def _read(access: Access, plan: ScanPlan) -> pa.RecordBatchReader:
    return read_plan(access.bucket, plan, access.world, reads=access.reads)
