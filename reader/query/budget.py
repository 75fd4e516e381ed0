"""What one query may use, and what all queries of an engine may use together."""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Invalid

_LEAST_MEMORY = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one query; None = without."""

    rows: int | None = None
    """An answer with more rows fails."""
    bytes: int | None = None
    """An answer with more bytes of Arrow data fails."""
    seconds: float | None = None
    """From the call to the last row taken, the wait for a turn included."""
    limit: int | None = None
    """No more rows are answered; the rest is not computed where DuckDB can spare it."""

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "limit"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 0
            ):
                raise Invalid(f"{name} is {value!r}, expected a whole number from 0")
        if self.seconds is not None and not self.seconds > 0:
            raise Invalid(f"the time limit is {self.seconds!r} seconds, expected more than nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an engine may use of the machine."""

    queries: int = 4
    """So many run at once,"""
    waiting: int = 64
    """so many wait for their turn; the next is refused,"""
    wait_s: float = 10.0
    """and so is who has waited so long."""
    memory_bytes: int | None = None
    """Of all queries together; None = DuckDB's own default."""
    threads: int | None = None
    """Of each query; None = one a core."""
    spill_bytes: int | None = None
    """Temporary disk of all queries together."""

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise Invalid(f"concurrency is {self.queries}, expected at least one query at once")
        if self.memory_bytes is not None and self.memory_bytes // self.queries < _LEAST_MEMORY:
            raise Invalid(
                f"memory is {self.memory_bytes:,} bytes for {self.queries} queries at once, "
                "expected at least "
                f"{_LEAST_MEMORY:,} for each: raise memory, or run fewer at once"
            )
