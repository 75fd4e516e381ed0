"""What a look at a table has found: frozen values for people and for machines, each with the
command that mends it.

Rules:
- A finding names one object, what was found there and what was expected, and what to do next.
- ``error``: rows cannot be read, or the index contradicts itself. ``warning``: a person should
  decide something. ``note``: nothing is wrong for readers; something is left over.
- A healthy table gives no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Check(StrEnum):
    """What was looked at: the kind of a finding, by which ``repair`` knows what to do."""

    BOUNDARY = "boundary"
    ENTRY = "entry"
    CHAIN = "chain"
    """The history does not lead through a version that somebody has noted."""
    CHECKPOINT = "checkpoint"
    TAG = "tag"
    """A tag's checkpoint, or a block that the tag names, is missing or damaged."""
    VERSION = "version"
    """A block that an older version names, and the newest does not, is missing or damaged."""
    BLOCK = "block"
    """A block's meta.json is missing or cannot be read."""
    FILE = "file"
    """A file that a block lists is missing or has another size."""
    META = "meta"
    """meta.json says something else than the index."""
    MARK = "mark"
    SHARED_SOURCE = "shared source"
    PARTIAL = "partial upload"
    DEBRIS = "debris"
    DUPLICATE = "duplicate"
    CLOCK = "clock"
    QUARANTINE = "quarantine"
    """A complete block that nobody will publish: at or below the floor, with some sources that the
    index holds already, or with a schema that the definition does not know."""
    NAME = "name"
    HASH = "hash"
    CHUNK = "chunk"
    """A chunk that Parquet cannot read, or with other rows or another schema than its meta.json
    says."""
    ORDER = "order"
    STATISTICS = "statistics"
    TIME = "time"
    SOURCE = "source"
    TEXT = "text"
    """A value of a text column that is no UTF-8: what was written, so no other copy mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    severity: Severity
    check: Check
    object: str
    """A key, relative to the table, or a block's ULID."""
    what: str
    """One clause: what was found, what was expected."""
    fix: str
    """The command, or the step, that mends it."""
    block: str | None = None
    """The block that it concerns, where it is one."""

    def to_json(self) -> dict[str, str | None]:
        """The finding for machines."""
        return {
            "severity": str(self.severity),
            "check": str(self.check),
            "object": self.object,
            "block": self.block,
            "what": self.what,
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole look at one table. ``findings`` are sorted, the worst first."""

    url: str
    version: int | None
    """The version that was looked at; None without an index, or where none could be read."""
    chain: str | None
    """The digest of all entries up to that version; None where they are of a release before 0.2."""
    deep: bool
    blocks: int
    files: int
    bytes: int
    """What was looked at: complete blocks, their files, the bytes of these."""
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], **counted: object) -> Report:
        """The report of these findings, sorted."""
        return cls(findings=tuple(sorted(findings, key=_order)), **counted)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which ``verify`` answers 1."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def to_json(self) -> dict[str, object]:
        """The report for machines."""
        return {
            "url": self.url,
            "version": self.version,
            "chain": self.chain,
            "deep": self.deep,
            "blocks": self.blocks,
            "files": self.files,
            "bytes": self.bytes,
            "findings": [finding.to_json() for finding in self.findings],
        }


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


def _order(finding: Finding) -> tuple[int, str, str, str]:
    return (_RANK[finding.severity], finding.check, finding.object, finding.what)
