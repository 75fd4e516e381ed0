"""The formats of an export: how each is made, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from blockstore.export.delta.export import LAST, LOG, export_delta
from blockstore.export.exported import Exported, Memo
from blockstore.export.iceberg.export import HINT, METADATA, export_iceberg
from blockstore.names import INCOMING
from blockstore.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format."""

    export: Callable[[Table, Memo], Exported]
    folder: str
    """The prefix of all its objects."""
    hint: str
    """The object that is written again for each version."""
    incoming: str | None = None
    """The prefix of what engines are about to commit."""


FORMATS: Mapping[str, Format] = {
    "iceberg": Format(export=export_iceberg, folder=METADATA, hint=HINT, incoming=INCOMING),
    "delta": Format(export=export_delta, folder=LOG, hint=LAST),
}
