"""The result of a pass of a shipper, and the reasons that it gives a person.

A block is shipped, refused or late. A late block is in the table and no reader sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.care.ship.state import Sent
from blockstore.names import SHIPPER_STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedBlock:
    """A block of the folder that is now durable in the table."""

    ulid: str
    stored_ulid: str
    """Its name in the table."""
    rows: int
    bytes: int
    version: int | None = None
    """The index entry that shows it; None if it becomes visible by its age, or by a person."""
    already: bool = False
    """The table had its rows before this pass."""
    late: bool = False
    """It is at or below the table's floor, and is not shown until a person decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedBlock:
    """A block that stays in the folder, or, if ``late``, is in the table and not shown."""

    ulid: str
    reason: str
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipReport:
    """The result of one pass."""

    shipped: tuple[ShippedBlock, ...] = ()
    refused: tuple[RefusedBlock, ...] = ()
    unfinished: tuple[str, ...] = ()
    """Directories without a meta.json: still being written."""
    removed: tuple[str, ...] = ()
    """Blocks deleted from the folder, because they are durable in the table."""


def lost_reason(sent: Sent) -> str:
    return (
        f"block {sent.stored_ulid} was shipped, but the table does not have it now, and no other "
        "block is known to hold its rows: if the table was lost, delete "
        f"{SHIPPER_STATE} in the folder, and what the table lacks is shipped again; if the block "
        "was removed from the table on purpose, delete it here"
    )


def late_reason(sent: Sent) -> str:
    return (
        f"block {sent.stored_ulid} was uploaded, but it is at or below the table's floor: it is "
        "too late to distinguish it from a write that was removed, so readers do not see it; "
        "accept its rows with 'blockstore repair URL --adopt ULID'"
    )


def forgotten_reason(sent: Sent) -> str:
    """Return why a block stays that came too late, and that the table no longer has."""
    return (
        f"block {sent.stored_ulid} was uploaded too late to be shown, and the table does not have "
        "it now: a person adopted its rows, or removed it, and the table does not remember which; "
        "look whether the table has its rows ('blockstore history' names an adoption), and delete "
        f"the block here; only if they are missing, delete {SHIPPER_STATE} in the folder, and it "
        "is shipped again"
    )
