"""The result of a check: frozen values for people and programs, each with the command that fixes
it.

Rules:
- A finding names one object, what was found there and what was expected, and what to do next.
- ``error``: rows cannot be read, or the index contradicts itself. ``warning``: a person should
  decide something. ``note``: nothing is wrong for readers; something is left over.
- A healthy table has no findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Check(StrEnum):
    """The kind of a finding; ``repair`` chooses its step by it."""

    BOUNDARY = "boundary"
    ENTRY = "entry"
    CHAIN = "chain"
    """The history does not contain a version that a person has noted."""
    CHECKPOINT = "checkpoint"
    TAG = "tag"
    """A tag's checkpoint, or a block that the tag names, is missing or damaged."""
    VERSION = "version"
    """A block that an older version names, and the newest does not, is missing or damaged."""
    BLOCK = "block"
    """A block's meta.json is missing or cannot be read."""
    FILE = "file"
    """A file that a block lists is missing or has another size."""
    CELL = "cell"
    """A file that a row names is missing or damaged."""
    SEGMENTS = "segments"
    """The hashes of a block's segments are missing or damaged: its files can only be read whole."""
    META = "meta"
    """meta.json differs from the index."""
    MARK = "mark"
    SHARED_SOURCE = "shared source"
    PARTIAL = "partial upload"
    DEBRIS = "debris"
    DUPLICATE = "duplicate"
    CLOCK = "clock"
    QUARANTINE = "quarantine"
    """A complete block that will never be published: it is at or below the floor, or the index has
    some of its sources already, or the definition does not know its schema."""
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
    """A text value that is not UTF-8: it was written so, and no other copy fixes it."""
    ROWS = "rows"
    """A row that has an identity is current twice, or its id or version cannot be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem."""

    severity: Severity
    check: Check
    object: str
    """A key, relative to the table, or a block's ULID."""
    what: str
    """One clause: what was found, what was expected."""
    fix: str
    """The command, or the step, that fixes it."""
    block: str | None = None
    """The block with the problem, if it is one."""

    def to_json(self) -> dict[str, str | None]:
        """Return the finding as JSON."""
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
    """The result of checking one table. ``findings`` are sorted, the worst first."""

    url: str
    version: int | None
    """The version that was checked; None without an index, or if none could be read."""
    chain: str | None
    """The digest of all entries up to that version; None where they are of a release before 0.2."""
    deep: bool
    blocks: int
    files: int
    bytes: int
    """What was checked: complete blocks, their files, and the bytes of these."""
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], **counted: object) -> Report:
        """Return a report with these findings, sorted."""
        return cls(findings=tuple(sorted(findings, key=_order)), **counted)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which ``blockstore verify`` exits with 1."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON."""
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
