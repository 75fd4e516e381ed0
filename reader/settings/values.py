"""The settings of a gateway as values; ``file.py`` declares how each is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from blockstore.errors import Invalid
from blockstore.reader.http.people import Group, Issuer
from blockstore.reader.http.tokens import Token
from blockstore.reader.iceberg.storage import Storage
from blockstore.reader.peers import PeerSettings
from blockstore.service.billing import Prices
from blockstore.service.listening import Listening
from blockstore.service.logs import LogSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What the gateway reads, and how fresh it keeps it."""

    urls: tuple[str, ...] = ()
    poll_s: float = 15.0
    active_for_s: float = 600.0
    max_staleness_s: float = 600.0
    discovery: str = "index"
    strict: bool = True

    def __post_init__(self) -> None:
        if self.max_staleness_s < self.poll_s:
            raise Invalid(
                "max_staleness of [tables] is shorter than poll, so every query would fail: "
                "raise it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """The cache of chunks of remote stores."""

    folder: Path | None = None
    size_bytes: int = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySettings:
    """The limits of one query and of all together."""

    memory_bytes: int = 4 << 30
    spill_bytes: int = 16 << 30
    threads: int = 0
    at_once: int = 4
    waiting: int = 64
    wait_s: float = 10.0
    time_limit_s: float = 60.0
    max_rows: int | None = None
    max_bytes: int | None = None
    isolated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Where the gateway listens, and how long it waits for clients."""

    listening: Listening
    max_body_bytes: int = 1 << 20
    max_upload_bytes: int = 8 << 30
    uploads_at_once: int = 4
    stall_s: float = 30.0
    answer_s: float = 900.0
    open_metrics: bool = False
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorSettings:
    """Where the gateway serves another protocol than HTTP."""

    host: str = ""
    """Empty: nowhere."""
    port: int = 0

    def listening(self, http: Listening) -> Listening:
        """The address, with the certificate of HTTP."""
        return replace(http, host=self.host, port=self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Jobs: work that outlives a request."""

    enabled: bool = True
    poll_s: float = 5.0
    lease_s: float = 30.0
    places: int = 2
    cluster_places: tuple[tuple[str, int], ...] = ()
    time_limit_s: float = 3600.0
    max_result_bytes: int = 64 << 30
    keep_s: float = 7 * 86_400.0
    work_dir: Path = Path()

    def __post_init__(self) -> None:
        if self.lease_s < 3:
            raise Invalid(
                "lease of [jobs] is shorter than 3s, too short for a few renewals: raise it"
            )
        if len(dict(self.cluster_places)) < len(self.cluster_places):
            raise Invalid("cluster_places of [jobs] names a group twice: keep one number of each")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The audit log."""

    file: Path | None = None
    """None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """All settings of one gateway."""

    tables: TableSettings
    cache: CacheSettings
    query: QuerySettings
    http: HttpSettings
    jobs: JobSettings
    log: LogSettings
    prices: Prices
    flight: DoorSettings = field(default_factory=DoorSettings)
    tokens: tuple[Token, ...] = ()
    issuers: tuple[Issuer, ...] = ()
    groups: tuple[Group, ...] = ()
    postgres: DoorSettings = field(default_factory=DoorSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    engines: Mapping[str, Storage] = field(default_factory=dict)
    """By the namespace of a lake."""
    peers: PeerSettings = field(default_factory=PeerSettings)
