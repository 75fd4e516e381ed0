"""Which version of a table a query reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.operations.instants import to_ms
from blockstore.reader.tables.names import folded


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A version number, a moment (datetime, ISO 8601, milliseconds) or a tag; without any, the
    newest version."""

    version: int | None = None
    as_of: object = None
    tag: str | None = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.version, self.as_of, self.tag)) > 1:
            raise Invalid("a query takes only one of version, as_of and tag: remove the others")
        if self.version is not None and (
            isinstance(self.version, bool) or not isinstance(self.version, int) or self.version < 1
        ):
            raise Invalid(f"version is {self.version!r}, expected a whole number from 1")
        if self.tag is not None and not isinstance(self.tag, str):
            raise Invalid(f"tag is {self.tag!r}, expected the name of a tag")
        if self.as_of is not None:
            object.__setattr__(self, "as_of", to_ms(self.as_of))

    @property
    def newest(self) -> bool:
        """Whether it is the newest version."""
        return self.version is None and self.as_of is None and self.tag is None

    @property
    def name(self) -> str:
        """What distinguishes it from others: ``version 3``, ``tag x``."""
        if self.tag is not None:
            return f"tag {self.tag}"
        return f"version {self.version}" if self.as_of is None else f"time {self.as_of}"

    @property
    def as_of_ms(self) -> int | None:
        """The moment in milliseconds since the epoch."""
        return None if self.as_of is None else to_ms(self.as_of)


NEWEST = At()


def at_of_each(names: Iterable[str], at: At | Mapping[str, At]) -> dict[str, At]:
    """The version to read of each table; a version number alone is for one table."""
    wanted = list(names)
    if isinstance(at, At):
        if at.version is not None and len(wanted) > 1:
            raise Invalid(
                f"version {at.version} is for one table, and the query names "
                f"{', '.join(sorted(wanted))}: give the version of each, or a moment with as_of"
            )
        return dict.fromkeys(wanted, at)
    given = {folded(name): (name, one) for name, one in at.items()}
    strangers = sorted(
        name for key, (name, _) in given.items() if key not in set(map(folded, wanted))
    )
    if strangers:
        raise Invalid(
            f"a version was given for {strangers[0]}, which the query does not name: it names "
            f"{', '.join(sorted(wanted)) or 'no table'}"
        )
    return {name: given[folded(name)][1] if folded(name) in given else NEWEST for name in wanted}
