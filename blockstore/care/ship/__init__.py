"""Ship: blocks that a device builds in a folder without a network, and uploads to a table later.

The problem: a device writes rows where there is no store, loses power at any moment, and has a
network now and then. Each row must count once in the table, however often an upload is repeated.

The mental model: a folder on the device holds finished blocks, the same bytes that an append would
write. A block's name (its ULID) and its sources identify the write, so the table itself knows what
it already has. ``blockstore.shipper.json`` in the folder only saves requests: it can be lost.

Types:
- ``build`` writes a finished block into the folder; ``finished`` reads the blocks there.
- ``Shipper`` uploads them, the oldest first, and returns a ``ShipReport`` for each pass with its
  ``ShippedBlock`` and ``RefusedBlock`` values.
- ``state`` reads and writes the folder's state and compares it with the table.
- ``unindexed`` checks the target if it is a table without an index.

Example::

    build("spool", rows, like="s3://lake/flights")
    report = Shipper(folder_at("spool", world), open_bucket("s3://lake/flights", world),
    world).once() print(len(report.shipped), "shipped,", len(report.refused), "refused")
"""

from __future__ import annotations

from blockstore.care.ship.report import RefusedBlock, ShippedBlock, ShipReport
from blockstore.care.ship.shipper import Shipper

__all__ = ["RefusedBlock", "ShipReport", "ShippedBlock", "Shipper"]
