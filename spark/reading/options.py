"""The options of a read, checked when they are parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.spark.options import flag, integer, known, names, size_if_given, table_url

_READ = (
    "path", "version", "as_of", "tag", "discovery", "columns", "where", "filters", "not_null",
    "partition_size",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which snapshot to read, and which part of it.

    None means the newest version, all columns, every row.
    """

    url: str
    version: int | None = None
    as_of: str | None = None
    tag: str | None = None
    listed: bool = False
    """Whether a listing also finds blocks that no entry names yet."""
    columns: tuple[str, ...] | None = None
    where: str | None = None
    not_null: bool = False
    """Whether columns without a null in the snapshot are declared ``not null``."""
    partition_bytes: int | None = None
    """The approximate size of a Spark partition; None means ``shares.share_bytes``."""

    def __post_init__(self) -> None:
        given = {"version": self.version, "as_of": self.as_of, "tag": self.tag}
        named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if self.listed:
            named.append("discovery='list'")
        if len(named) > 1:
            raise Invalid(f"{' and '.join(named)} exclude each other: keep one of them.")


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of ``spark.read``. Raises Invalid with the name of the wrong one."""
    given = known(options, _READ, "read")
    if flag(given, "filters"):
        raise Invalid(
            "option filters='true': Spark keeps what it read for one filter and takes it for the "
            "next query of the same DataFrame, so rows would be missing; use option('where', …), "
            "or blockstore.spark.read, which passes filters to Spark's own reader."
        )
    version, columns = given.get("version"), given.get("columns")
    return ReadOptions(
        url=table_url(given, "load"),
        version=None if version is None else integer(version, "version", least=1),
        as_of=given.get("as_of"),
        tag=given.get("tag"),
        listed=listed(given.get("discovery", "index")),
        columns=None if columns is None else names(columns, "columns"),
        where=given.get("where"),
        not_null=flag(given, "not_null"),
        partition_bytes=size_if_given(given, "partition_size"),
    )


def listed(discovery: str) -> bool:
    """Whether ``discovery`` requests a listing. Raises Invalid."""
    if discovery not in ("index", "list"):
        raise Invalid(f"discovery={discovery!r}: expected 'index' or 'list'.")
    return discovery == "list"
