"""The configuration file of a gateway, ``configs/reader.toml``: every section and key.

Rules:
- One file belongs to one process. URLs on the command line override those of the file.
- The file contains the hashes of tokens (``[tokens."name"]``). Without any, the gateway starts only
  with ``--no-auth``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blockstore.errors import Invalid
from blockstore.reader.jobs.places import GROUPS
from blockstore.reader.settings.audit import AUDIT
from blockstore.reader.settings.doors import FLIGHT, POSTGRES
from blockstore.reader.settings.engines import ENGINES, storage_of
from blockstore.reader.settings.peers import PEERS
from blockstore.reader.settings.people import ISSUERS, PEOPLES_GROUPS, group_of, issuer_of
from blockstore.reader.settings.policies import POLICIES, policy_of
from blockstore.reader.settings.tokens import TOKENS, token_of
from blockstore.reader.settings.values import (
    CacheSettings,
    GatewaySettings,
    HttpSettings,
    JobSettings,
    QuerySettings,
    TableSettings,
)
from blockstore.reader.tables.policies import Policy
from blockstore.service import kinds
from blockstore.service.billing import PRICES
from blockstore.service.config import Config, ConfigFile, Key, Named, Section
from blockstore.service.listening import http_keys, listening
from blockstore.service.logs import LOG

_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:]+\])(:\d+)?")

TABLES = Section(
    name="tables",
    sentence="What the gateway reads, and how fresh it keeps it.",
    build=TableSettings,
    keys=(
        Key(
            name="urls",
            default=[],
            read=kinds.items(kinds.text),
            sentence="The URLs of tables or of lakes: folders in which tables may appear and "
            "disappear.",
        ),
        Key(
            name="poll",
            sets="poll_s",
            default="15s",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often a table in use is polled: two small requests, whatever its size.",
        ),
        Key(
            name="active_for",
            sets="active_for_s",
            default="10m",
            read=kinds.duration_s,
            sentence="A table is polled for this long after a query; later its next query polls it "
            "first.",
        ),
        Key(
            name="max_staleness",
            sets="max_staleness_s",
            default="10m",
            read=kinds.duration_s,
            sentence="If a table could not be polled for longer than this, its queries fail "
            "instead of returning stale data.",
        ),
        Key(
            name="discovery",
            default="index",
            read=kinds.one_of("index", "list"),
            sentence="index, or list to find blocks by listing, also where a table has no index.",
        ),
        Key(
            name="strict",
            default=True,
            read=kinds.switch,
            sentence="With list: fail queries of tables with malformed blocks that may hold the "
            "only "
            "copy of some rows.",
        ),
    ),
)

CACHE = Section(
    name="cache",
    sentence="Chunks of remote stores, cached on this machine's disk; tables in folders need none.",
    build=CacheSettings,
    keys=(
        Key(
            name="folder",
            default="",
            read=kinds.path,
            sentence="The cache folder; empty for the user's cache folder. Gateways of one machine "
            "may share it.",
        ),
        Key(
            name="size",
            sets="size_bytes",
            default="10GiB",
            read=kinds.size,
            sentence="The size of the cache; the least recently used chunks are removed first.",
        ),
    ),
)

QUERY = Section(
    name="query",
    sentence="The limits of one query and of all together.",
    build=QuerySettings,
    keys=(
        Key(
            name="memory",
            sets="memory_bytes",
            default="4GiB",
            read=kinds.size,
            sentence="The memory of all queries together, in equal shares. A query that needs more "
            "spills to disk.",
        ),
        Key(
            name="spill",
            sets="spill_bytes",
            default="16GiB",
            read=kinds.size,
            sentence="The disk space that all queries together may use for what does not fit into "
            "memory.",
        ),
        Key(
            name="threads",
            default=0,
            read=kinds.between(kinds.count, 0, 1024),
            sentence="Threads of one query; 0 for one per core.",
        ),
        Key(
            name="at_once",
            default=4,
            read=kinds.between(kinds.count, 1, 1024),
            sentence="How many queries run at once.",
        ),
        Key(
            name="waiting",
            default=64,
            read=kinds.between(kinds.count, 0, 4096),
            sentence="How many queries may wait for their turn; further ones are refused (429).",
        ),
        Key(
            name="wait",
            sets="wait_s",
            default="10s",
            read=kinds.duration_s,
            sentence="How long a query waits for its turn before it is refused (429).",
        ),
        Key(
            name="time_limit",
            sets="time_limit_s",
            default="1m",
            read=kinds.between(kinds.duration_s, 0.1),
            sentence="The time limit of a query; longer ones belong in a job.",
        ),
        Key(
            name="max_rows",
            default="none",
            read=kinds.optional(kinds.count, "none"),
            sentence="A query whose result has more rows fails; none for no limit.",
        ),
        Key(
            name="max_bytes",
            default="none",
            read=kinds.optional(kinds.size, "none"),
            sentence="A query whose result has more bytes, as Arrow, fails; none for no limit.",
        ),
        Key(
            name="isolated",
            default=True,
            read=kinds.switch,
            sentence="Run each query in a separate process, which is killed at its limits "
            "whatever it "
            "does.",
        ),
    ),
)


def _http(
    *,
    listen: tuple[str, int],
    tls_cert: Path | None,
    tls_key: Path | None,
    **rest: Any,
) -> HttpSettings:
    return HttpSettings(
        listening=listening(listen=listen, tls_cert=tls_cert, tls_key=tls_key), **rest
    )


def _cap(value: Any, name: str) -> tuple[str, int]:
    """A number of places of a group of jobs."""
    group, _, number = kinds.text(value, name).partition("=")
    if group not in GROUPS:
        raise Invalid(f"{name} names {group!r}, expected one of {', '.join(GROUPS)}: uploads=4")
    return group, int(kinds.between(kinds.count, 1, 1_000)(number, name))


def _origin(value: Any, name: str) -> str:
    """An origin exactly as browsers send it: any other spelling would never match."""
    given = kinds.text(value, name)
    parts = urlsplit(given)
    try:
        port = parts.port
    except ValueError:
        port = 0
    usual = port == {"http": 80, "https": 443}.get(parts.scheme)
    if (
        port == 0
        or usual
        or given != f"{parts.scheme}://{parts.netloc}"
        or not _ORIGIN.fullmatch(given)
    ):
        raise Invalid(
            f"{name} has {value!r}, expected an origin as browsers send it: https://, a name in "
            "lower case, and the port unless it is the default; no path and no *"
        )
    return given


HTTP = Section(
    name="http",
    sentence="Where the gateway listens, and how long it waits for clients.",
    build=_http,
    keys=(
        *http_keys("127.0.0.1:8080"),
        Key(
            name="max_body",
            sets="max_body_bytes",
            default="1MiB",
            read=kinds.size,
            sentence="The largest body of a request, except uploads.",
        ),
        Key(
            name="max_upload",
            sets="max_upload_bytes",
            default="8GiB",
            read=kinds.size,
            sentence="The largest file that may be uploaded.",
        ),
        Key(
            name="uploads_at_once",
            default=4,
            read=kinds.between(kinds.count, 1, 256),
            sentence="How many files are received at once; further uploads are refused (429).",
        ),
        Key(
            name="stall",
            sets="stall_s",
            default="30s",
            read=kinds.between(kinds.duration_s, 0.1),
            sentence="A client that neither sends nor reads anything for this long is "
            "disconnected.",
        ),
        Key(
            name="answer_time",
            sets="answer_s",
            default="15m",
            read=kinds.between(kinds.duration_s, 1),
            sentence="How long a client may take to read a response.",
        ),
        Key(
            name="open_metrics",
            default=False,
            read=kinds.switch,
            sentence="Serve /metrics without a token. It contains the names of tables.",
        ),
        Key(
            name="origins",
            default=[],
            read=kinds.items(_origin),
            sentence="The origins whose pages may send requests from a browser (CORS), such as "
            '"https://dashboards.example"; none by default.',
        ),
    ),
)

JOBS = Section(
    name="jobs",
    sentence="Jobs: work that outlives a request. Their records are in the bucket of the first "
    "URL, under jobs/.",
    build=JobSettings,
    keys=(
        Key(
            name="enabled",
            default=True,
            read=kinds.switch,
            sentence="Accept and run jobs. If false, the gateway writes nothing to the bucket.",
        ),
        Key(
            name="poll",
            sets="poll_s",
            default="5s",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often the jobs of other gateways are polled: one listing.",
        ),
        Key(
            name="lease",
            sets="lease_s",
            default="30s",
            read=kinds.duration_s,
            sentence="After this long without a sign of life from the gateway that runs it, a "
            "job is "
            "taken over by another.",
        ),
        Key(
            name="places",
            default=2,
            read=kinds.between(kinds.count, 1, 64),
            sentence="How many uploads, how many changes of rows and tables, and how many queries "
            "and downloads, this gateway runs at once.",
        ),
        Key(
            name="cluster_places",
            default=[],
            read=kinds.items(_cap),
            sentence="How many jobs all gateways of the lake together run at once, such as "
            '["uploads=4", "changes=8", "reads=16"]; what is not named is not limited. Give all '
            "gateways the same numbers.",
        ),
        Key(
            name="time_limit",
            sets="time_limit_s",
            default="1h",
            read=kinds.between(kinds.duration_s, 1),
            sentence="The time limit of a job.",
        ),
        Key(
            name="max_result",
            sets="max_result_bytes",
            default="64GiB",
            read=kinds.size,
            sentence="The largest file that a job may write.",
        ),
        Key(
            name="keep",
            sets="keep_s",
            default="7d",
            read=kinds.duration_s,
            sentence="How long a job and its file are kept after its end.",
        ),
        Key(
            name="work_dir",
            default="",
            read=kinds.folder,
            sentence="The folder for uploads to remote stores while they are read; empty for the "
            "system's temporary folder.",
        ),
    ),
)


def _problems(config: Config) -> Iterable[str]:
    policies: dict[str, Policy] = {}
    for name, fields in config.overrides(POLICIES).items():
        try:
            policies[name] = policy_of(name, fields)
        except Invalid as error:
            yield str(error)
    if len(policies) < len(config.overrides(POLICIES)):
        return  # what names them would be reported too
    named: tuple[tuple[Named, Callable[[str, Mapping[str, object]], object]], ...] = (
        (TOKENS, partial(token_of, policies=policies)),
        (ISSUERS, issuer_of),
        (PEOPLES_GROUPS, partial(group_of, policies=policies)),
    )
    for table, value_of in named:
        for name, fields in config.overrides(table).items():
            try:
                value_of(name, fields)
            except Invalid as error:
                yield str(error)
    urls = [fields.get("url") for fields in config.overrides(ISSUERS).values()]
    if len(set(urls)) < len(urls):
        yield "two [issuers] have the same url: keep one of them"
    if bool(urls) != bool(config.overrides(PEOPLES_GROUPS)):
        yield "[issuers] and [groups] need one another: people come in by both"


FILE = ConfigFile(
    name="reader.toml",
    about="The gateway's settings, each at its default. Any of them may be left out.",
    sections=(TABLES, CACHE, QUERY, HTTP, FLIGHT, POSTGRES, PEERS, JOBS, AUDIT, LOG, PRICES),
    named=(ENGINES, TOKENS, ISSUERS, PEOPLES_GROUPS, POLICIES),
    check=_problems,
)


def load_settings(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> GatewaySettings:
    """The settings of a file (or of none), overridden by the environment. Raises Invalid with all
    problems."""
    config = FILE.load(path, environment)
    tokens, groups = config.overrides(TOKENS), config.overrides(PEOPLES_GROUPS)
    policies = {name: policy_of(name, one) for name, one in config.overrides(POLICIES).items()}
    return GatewaySettings(
        tables=config.of(TABLES),
        cache=config.of(CACHE),
        query=config.of(QUERY),
        http=config.of(HTTP),
        flight=config.of(FLIGHT),
        postgres=config.of(POSTGRES),
        jobs=config.of(JOBS),
        peers=config.of(PEERS),
        audit=config.of(AUDIT),
        log=config.of(LOG),
        prices=config.of(PRICES),
        engines={name: storage_of(fields) for name, fields in config.overrides(ENGINES).items()},
        tokens=tuple(token_of(name, one, policies) for name, one in tokens.items()),
        issuers=tuple(issuer_of(name, one) for name, one in config.overrides(ISSUERS).items()),
        groups=tuple(group_of(name, one, policies) for name, one in groups.items()),
    )
