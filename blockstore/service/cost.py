"""What a lake costs: requests, dollars, memory, as formulas over counts. Pure.

Every constant here was counted or measured; ``docs/scale.md`` quotes them, and tests compare them
with what a counting bucket sees. The requests are those of small tables with one chunk a block,
where nothing fails. A folder costs nothing but the same number of file operations.

Rules:
- An append is ``APPEND``; every ``CHECKPOINT_EVERY``-th entry of a table adds ``CHECKPOINT``.
- A block is merged about ``MERGES_A_BLOCK`` times in its life, with ``tier_blocks`` of its size
  each time: 1/8 + 1/64 + …; each input is then removed.
- A table that is written to more than ``MOST_CHANGES_AN_HOUR`` times is awake all the time. Any
  other rests, and each append wakes it once (``CHANGE``).
- Deletes are free at the large stores, but count as requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.errors import Invalid
from blockstore.service.billing import Prices

DAY_S = 86_400.0
MONTH_DAYS = 30
HOURS = 24 * MONTH_DAYS
MINUTES = 60 * HOURS

PAGE = 1_000
"""Objects, or folders, of one LIST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """So many requests of each price class."""

    write: float = 0.0
    """PUT and LIST."""
    read: float = 0.0
    """GET and HEAD."""
    delete: float = 0.0

    def times(self, count: float) -> Requests:
        """So many of them."""
        return Requests(
            write=self.write * count, read=self.read * count, delete=self.delete * count
        )

    def plus(self, other: Requests) -> Requests:
        """Both."""
        return Requests(
            write=self.write + other.write,
            read=self.read + other.read,
            delete=self.delete + other.delete,
        )

    @property
    def total(self) -> float:
        """All of them."""
        return self.write + self.read + self.delete

    def dollars(self, prices: Prices) -> float:
        """What they cost."""
        counts = {"write": self.write, "read": self.read, "delete": self.delete}
        return sum(prices.cost(counts).values())


APPEND = Requests(write=3, read=3)
"""A chunk, meta.json, an entry; two looks at names, the boundary."""
CHECKPOINT_EVERY = 64
CHECKPOINT = Requests(write=2)
"""The checkpoint and the hint."""
MERGE = Requests(write=4, read=11)
"""A merge, its plan included, besides its inputs."""
MERGED_INPUT = Requests(read=5)
REMOVED_BLOCK = Requests(write=1, read=5, delete=3)
"""Its mark, and the looks at it until it is gone."""
TIER_BLOCKS = 8
MERGES_A_BLOCK = 1 / (TIER_BLOCKS - 1)
"""Merges for each appended block, over all levels."""
AWAKE_HOUR = Requests(write=96, read=556)
"""What the loops of a table send in an hour in which they find nothing to do."""
RESTING_LOOK = Requests(write=1)
"""For each page of the table's folder."""
ROUND = Requests(write=9, read=39)
"""All passes once, from the reading of the table to its rest."""
CHANGE = Requests(write=22, read=78)
"""What an append to a resting table leads to, besides merges: two rounds, and looks that come
sooner for a while."""
MOST_CHANGES_AN_HOUR = 4.0
LOOKS_AN_HOUR = 1.06
ROUNDS_A_DAY = 0.5
LISTINGS_AN_HOUR = 60
"""Of the lake, by the compactor."""
POLL = Requests(read=2)
POLLS_A_MINUTE = 4.0
GATEWAY_LISTINGS_A_MINUTE = 4.0
MOST_LISTED_A_MINUTE = 60.0

GATEWAY_TABLE_BYTES = 2_500
"""Of a table that nothing asks for."""
COMPACTOR_TABLE_BYTES = 6_000
"""Of a resting table."""
AWAKE_TABLE_BYTES = 70_000
BLOCK_BYTES = 330
"""Of a live block in the state of a process that has the table open."""
PROCESS_BYTES = 120 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The counts that decide what a lake costs."""

    tables: int = 1
    writers: int = 1
    """Each appends to one table; where there are more writers than tables, several to one."""
    appends_a_day: float = 24.0
    """Of one writer."""
    asked_tables: int = 1
    """Tables in use at any time, at each gateway."""
    gateways: int = 1
    blocks: int = 1_000
    """Live blocks, in all tables."""
    size_bytes: float = 0.0
    storage_per_gb: float = 0.023
    """Dollars a month."""

    def __post_init__(self) -> None:
        for name in ("tables", "writers", "asked_tables", "gateways", "blocks"):
            least = 1 if name == "tables" else 0
            if getattr(self, name) < least:
                raise Invalid(f"{name} is {getattr(self, name)}, expected a number from {least}")
        if not (0 <= self.appends_a_day < math.inf and 0 <= self.size_bytes < math.inf):
            raise Invalid("appends and size are expected to be 0 or more, and finite")

    @property
    def written_tables(self) -> int:
        """Tables to which some writer appends."""
        return min(self.tables, self.writers)

    @property
    def appends(self) -> float:
        """In a month."""
        return self.writers * self.appends_a_day * MONTH_DAYS

    @property
    def awake_tables(self) -> int:
        """Tables that change too often to rest."""
        written = self.written_tables
        an_hour = self.writers * self.appends_a_day / 24 / written if written else 0.0
        return written if an_hour > MOST_CHANGES_AN_HOUR else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a lake costs in a month, and the memory of each process."""

    requests: Mapping[str, Requests] = field(default_factory=dict)
    """By what sends them."""
    dollars: Mapping[str, float] = field(default_factory=dict)
    gateway_bytes: float = 0.0
    compactor_bytes: float = 0.0
    """Besides the memory of a merge."""

    @property
    def total_dollars(self) -> float:
        """A month."""
        return sum(self.dollars.values())


def cost(lake: Lake, prices: Prices | None = None) -> Cost:
    """What a lake costs."""
    prices = prices or Prices()
    requests = {
        "writers": appending(lake),
        "merges": merging(lake),
        "compactor, tables in use": AWAKE_HOUR.times(lake.awake_tables * HOURS),
        "compactor, quiet tables": resting(lake),
        "gateways": polling(lake),
    }
    dollars = {name: one.dollars(prices) for name, one in requests.items()}
    dollars["storage"] = lake.size_bytes / 1e9 * lake.storage_per_gb
    a_table = lake.blocks / lake.tables * BLOCK_BYTES
    return Cost(
        requests=requests,
        dollars=dollars,
        gateway_bytes=PROCESS_BYTES
        + GATEWAY_TABLE_BYTES * lake.tables
        + a_table * min(lake.tables, lake.asked_tables),
        compactor_bytes=PROCESS_BYTES
        + COMPACTOR_TABLE_BYTES * lake.tables
        + (AWAKE_TABLE_BYTES + a_table) * lake.awake_tables,
    )


def appending(lake: Lake) -> Requests:
    """What the writers send in a month."""
    return APPEND.times(lake.appends).plus(CHECKPOINT.times(lake.appends / CHECKPOINT_EVERY))


def merging(lake: Lake) -> Requests:
    """What merging and removing what they have appended costs in a month."""
    one = MERGE.plus(MERGED_INPUT.plus(REMOVED_BLOCK).times(TIER_BLOCKS))
    return one.times(lake.appends * MERGES_A_BLOCK)


def resting(lake: Lake) -> Requests:
    """What the compactor sends in a month for tables at which little changes, and to find new
    ones."""
    tables = lake.tables - lake.awake_tables
    looks = RESTING_LOOK.times(LOOKS_AN_HOUR * HOURS * tables * _pages(lake))
    rounds = ROUND.times(ROUNDS_A_DAY * MONTH_DAYS * tables)
    changes = CHANGE.times(0 if lake.awake_tables else lake.appends)
    listing = _listing(lake).times(LISTINGS_AN_HOUR * HOURS)
    return looks.plus(rounds).plus(changes).plus(listing)


def polling(lake: Lake) -> Requests:
    """What the gateways send in a month to keep tables fresh; reading rows comes on top."""
    polls = POLL.times(min(lake.asked_tables, lake.tables) * POLLS_A_MINUTE)
    pages = _listing(lake).times(GATEWAY_LISTINGS_A_MINUTE)
    listed = Requests(write=min(pages.write, MOST_LISTED_A_MINUTE))
    return polls.plus(listed).times(MINUTES * lake.gateways)


def _listing(lake: Lake) -> Requests:
    return Requests(write=-(-lake.tables // PAGE))


def _pages(lake: Lake) -> int:
    """Of the folder of one table: a block has three objects, and the index some."""
    return max(1, -(-3 * lake.blocks // (lake.tables * PAGE)))
