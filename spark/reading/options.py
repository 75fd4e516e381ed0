"""What a user may set in ``option(…)`` of a read, checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.spark.options import flag, known, names, size_if_given, table_url, whole

_READ = (
    "path", "version", "as_of", "tag", "discovery", "columns", "where", "filters", "not_null", "partition_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which snapshot is read, and which part of it.

    None means the newest version, all columns, every row.
    """

    url: str
    version: int | None = None
    as_of: str | None = None
    tag: str | None = None
    listed: bool = False
    """Whether blocks that no entry names yet are looked for by a listing."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    filters: bool = False
    """Whether Spark's own filters prune chunks (needs spark.sql.python.filterPushdown.enabled)."""
    not_null: bool = False
    """Whether columns of which no row of the snapshot is null are declared so."""
    partition_bytes: int | None = None
    """Chunks are gathered, and large ones are cut, into Spark partitions of about this size;

    None: by ``shares.share_bytes``.
    """

    def __post_init__(self) -> None:
        given = {"version": self.version, "as_of": self.as_of, "tag": self.tag}
        named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if self.listed:
            named.append("discovery='list'")
        if len(named) > 1:
            raise Invalid(
                f"{' and '.join(named)} are given: expected one of them, drop the others."
            )


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of ``spark.read``; raises Invalid naming the one that is wrong."""
    given = known(options, _READ, "read")
    version, columns = given.get("version"), given.get("columns")
    return ReadOptions(
        url=table_url(given, "load"),
        version=None if version is None else whole(version, "version", least=1),
        as_of=given.get("as_of"),
        tag=given.get("tag"),
        listed=listed(given.get("discovery", "index")),
        columns=None if columns is None else names(columns, "columns"),
        where=given.get("where"),
        filters=flag(given, "filters"),
        not_null=flag(given, "not_null"),
        partition_bytes=size_if_given(given, "partition_size"),
    )


def listed(discovery: str) -> bool:
    """Whether ``discovery`` means a listing. Raises Invalid."""
    if discovery not in ("index", "list"):
        raise Invalid(f"discovery={discovery!r}: expected 'index' or 'list'.")
    return discovery == "list"
