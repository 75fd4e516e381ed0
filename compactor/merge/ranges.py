"""A range of the leading sort column: the part of a merge that one worker does.

Rules:
- Ranges of one merge do not overlap and leave nothing out: low is inclusive, high exclusive, None
  is open. Rows of equal leading keys are in one range, so that the parts in a row are the complete
  merge in its stable order.
- NaN and null come after every value: only the last range, whose high is open, has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blockstore.compactor.merge.order import KeyPart, RawText, RowOrder, key_part


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """Values of ``column`` from ``low`` to below ``high``; both are ``(0, value)``, as
    ``order.key_part`` makes them."""

    column: str
    low: KeyPart | None = None
    high: KeyPart | None = None

    def meets(self, floor: KeyPart | None, ceiling: KeyPart | None) -> bool:
        """Whether rows between these bounds (None = unknown) can be in the range."""
        above = floor is not None and self.high is not None and floor >= self.high
        below = ceiling is not None and self.low is not None and ceiling < self.low
        return not (above or below)

    def clamped(
        self, floor: KeyPart | None, ceiling: KeyPart | None
    ) -> tuple[KeyPart | None, KeyPart | None]:
        """These bounds, cut to the range."""
        lows = [bound for bound in (floor, self.low) if bound is not None]
        highs = [bound for bound in (ceiling, self.high) if bound is not None]
        return max(lows, default=None), min(highs, default=None)

    def within(self, table: pa.Table) -> pa.Table:
        """The rows of a table that are in the range, in their order."""
        column = table.column(self.column)
        mask = None
        if self.low is not None:
            # NaN compares false with everything, and null with nothing: neither is below the low.
            below = pc.less(column, _scalar(self.low, column.type))
            mask = pc.invert(pc.fill_null(below, False))
        if self.high is not None:
            under = pc.fill_null(pc.less(column, _scalar(self.high, column.type)), False)
            mask = under if mask is None else pc.and_(mask, under)
        return table if mask is None else table.filter(mask)

    def sliced(self, table: pa.Table) -> pa.Table:
        """The same of a sorted table, without a copy.

        If the table is not sorted, the first row is still not below the range, and the last one not
        past it: a merge that finds all rows in order has none of another range.
        """
        order = RowOrder((self.column,))
        first = 0 if self.low is None else order.position(table, (self.low,), after=False)
        rest = table.slice(first)
        if self.high is None or not rest.num_rows:
            return rest
        return rest.slice(0, order.position(rest, (self.high,), after=False))

    def may_hold(self, group: pq.RowGroupMetaData, stored_as: str, kind: pa.DataType) -> bool:
        """Whether a row group of a Parquet file can have rows of the range, by its statistics; the
        file has the column as ``stored_as``, and ``kind`` is its type in the table."""
        stats = next(
            (
                column.statistics
                for column in map(group.column, range(group.num_columns))
                if column.path_in_schema == stored_as
            ),
            None,
        )
        if stats is None or not stats.has_min_max:
            return True
        try:
            floor, ceiling = (
                key_part(pa.scalar(stats.min, kind)),
                key_part(pa.scalar(stats.max, kind)),
            )
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return True
        # Statistics do not cover NaN and null, which are behind every high and above every low.
        sound = stats.has_null_count and not stats.null_count and not pa.types.is_floating(kind)
        return self.meets(floor, ceiling if sound or self.high is not None else None)

    def is_past(self, table: pa.Table) -> bool:
        """Whether the last row of a non-empty table is past the range."""
        return self.high is not None and key_part(table.column(self.column)[-1]) >= self.high


def _scalar(part: KeyPart, kind: pa.DataType) -> pa.Scalar:
    value: Any = part[1]
    return (
        pa.scalar(value.data, pa.binary()) if isinstance(value, RawText) else pa.scalar(value, kind)
    )
