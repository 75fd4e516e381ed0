"""The configuration of the compactor's process: ``configs/compactor.toml``, every section of it.

Rules:
- One file serves the verbs that run once and the process that runs for months.
- The settings of a table of a lake are those of the process with what ``[tables."name"]``
  overrides; together they must be valid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from blockstore.compactor.settings import COMPACTION, TABLE_KEYS, Settings, overridden
from blockstore.errors import Invalid
from blockstore.service import kinds
from blockstore.service.billing import PRICES, Prices
from blockstore.service.config import Config, ConfigFile, Key, Named, Section
from blockstore.service.listening import Listening, http_keys, listening
from blockstore.service.logs import LOG, LogSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often each loop of the process runs, and how it behaves when something fails."""

    tables_s: float = 60.0
    compact_s: float = 300.0
    clean_s: float = 300.0
    retention_s: float = 3600.0
    index_s: float = 900.0
    backlog_s: float = 60.0
    export_s: float = 60.0
    quiet_s: float = 3600.0
    retry_s: float = 5.0
    retry_most_s: float = 900.0
    grace_s: float = 30.0
    ready_age_s: float = 1800.0
    objects_per_s: float = 500.0
    history: int = 200
    merge: bool = True
    cache: Path | None = None

    def __post_init__(self) -> None:
        if self.retry_most_s < self.retry_s:
            raise Invalid("retry_most of [loops] is shorter than retry, expected at least as long")


LOOPS = Section(
    name="loops",
    sentence="How often the process looks at each table, and how it behaves when something fails.",
    build=Schedule,
    keys=(
        Key(
            name="tables",
            sets="tables_s",
            default="1m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often a lake is listed for new and removed tables.",
        ),
        Key(
            name="interval",
            sets="compact_s",
            default="5m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often each table is planned and merged.",
        ),
        Key(
            name="clean",
            sets="clean_s",
            default="5m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often aged blocks are published, and blocks no longer needed are marked "
            "and removed.",
        ),
        Key(
            name="retention",
            sets="retention_s",
            default="1h",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often blocks older than their table's retention are expired.",
        ),
        Key(
            name="index",
            sets="index_s",
            default="15m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often old entries and checkpoints of the index are collected.",
        ),
        Key(
            name="backlog",
            sets="backlog_s",
            default="1m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often the backlog that the page and the metrics show is counted.",
        ),
        Key(
            name="export",
            sets="export_s",
            default="1m",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often metadata for other engines is written, where export asks for it.",
        ),
        Key(
            name="quiet",
            sets="quiet_s",
            default="1h",
            read=kinds.duration_s,
            sentence="A table at which nothing changes is only looked at, at first after interval, "
            "then less and less often, at least this often; 0s keeps all loops running for it.",
        ),
        Key(
            name="retry",
            sets="retry_s",
            default="5s",
            read=kinds.between(kinds.duration_s, 0.01),
            sentence="The wait after the first failure of a loop; it doubles with each further "
            "one, with jitter.",
        ),
        Key(
            name="retry_most",
            sets="retry_most_s",
            default="15m",
            read=kinds.between(kinds.duration_s, 0.01),
            sentence="The longest wait between two tries of a loop that fails.",
        ),
        Key(
            name="grace",
            sets="grace_s",
            default="30s",
            read=kinds.duration_s,
            sentence="How long a running merge may continue after SIGTERM before it is abandoned, "
            "which loses only its work. Keep it below the time after which your system sends "
            "SIGKILL.",
        ),
        Key(
            name="ready_age",
            sets="ready_age_s",
            default="30m",
            read=kinds.between(kinds.duration_s, 0.1),
            sentence="The process reports that it is not ready once a table has not been merged or "
            "cleaned successfully for this long.",
        ),
        Key(
            name="objects_per_s",
            default=500,
            read=kinds.between(kinds.number, 1),
            sentence="How many requests cleaning may send per second, and how many objects it may "
            "delete in batches.",
        ),
        Key(
            name="history",
            default=200,
            read=kinds.between(kinds.count, 0, 10_000),
            sentence="How many finished jobs of each table are remembered for the page.",
        ),
        Key(
            name="merge",
            default=True,
            read=kinds.switch,
            sentence="false where processes with --shard do all the merging, and this one does "
            "the rest.",
        ),
        Key(
            name="cache",
            default="",
            read=kinds.path,
            sentence="A folder that keeps what was read of the blocks across restarts; empty to "
            "read it again after each start.",
        ),
    ),
)

HTTP = Section(
    name="http",
    sentence="Where the process serves its page, /metrics, /-/healthy and /-/ready. They show "
    "names, sizes and times of blocks, no rows, and change nothing; your network decides who can "
    "reach the address.",
    build=listening,
    keys=http_keys("127.0.0.1:8081"),
)

_TEND = Key(
    name="tend",
    default=True,
    read=kinds.switch,
    sentence="false leaves the table alone completely, while someone repairs it.",
)

TABLES = Named(
    name="tables",
    sentence="Tables of a lake that differ: their name below the lake's URL, and any of these "
    "keys. tend = false leaves a table alone completely, while someone repairs it.",
    keys=(*TABLE_KEYS, _TEND),
    example="sensors",
)


def _without_tend(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name != _TEND.field}


def _disagreements(config: Config) -> Iterable[str]:
    settings = config.of(COMPACTION)
    for name, fields in config.overrides(TABLES).items():
        try:
            overridden(settings, _without_tend(fields))
        except Invalid as error:
            yield f'[tables."{name}"]: {error}'


FILE = ConfigFile(
    name="compactor.toml",
    about="The compactor's configuration, every key at its default. Any of them may be left out. "
    "An environment variable overrides a key: BLOCKSTORE_COMPACTOR_MEMORY=4GiB. Delays and "
    "retention are properties of each table, not of a process: see `blockstore alter`.",
    sections=(COMPACTION, LOOPS, HTTP, LOG, PRICES),
    named=(TABLES,),
    check=_disagreements,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """The configuration of the process."""

    settings: Settings = field(default_factory=Settings)
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    loops: Schedule = field(default_factory=Schedule)
    http: Listening = field(default_factory=lambda: Listening(host="127.0.0.1", port=8081))
    log: LogSettings = field(default_factory=LogSettings)
    prices: Prices = field(default_factory=Prices)

    def of_table(self, name: str) -> Settings:
        """The settings of one table."""
        return overridden(self.settings, _without_tend(self.tables.get(name, {})))

    def unmatched(self, names: Collection[str]) -> tuple[str, ...]:
        """The tables that the configuration names and that are not among ``names``."""
        return tuple(name for name in sorted(self.tables) if name not in names)

    def leaves(self, name: str) -> bool:
        """Whether the process leaves the table alone."""
        return not self.tables.get(name, {}).get(_TEND.field, True)


def load_config(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> ProcessConfig:
    """The configuration of a file (or none) under the environment.

    Raises Invalid, naming every problem.
    """
    config = FILE.load(path, environment)
    return ProcessConfig(
        settings=config.of(COMPACTION),
        tables=config.overrides(TABLES),
        loops=config.of(LOOPS),
        http=config.of(HTTP),
        log=config.of(LOG),
        prices=config.of(PRICES),
    )
