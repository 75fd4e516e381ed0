"""Whether a table's history still holds a version that somebody has noted, with the digest of its
chain.

The digest covers the bytes of every entry up to that version (``index/chain.py``). Whoever keeps it
elsewhere, as an auditor does, notices a history that was rewritten, cut or put back, however
carefully.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.errors import BlockstoreError, Invalid, NotFound, Unavailable, VersionExpired
from blockstore.index.log import Log
from blockstore.names import entry_key
from blockstore.world import World

_FORM = re.compile(r"([1-9][0-9]{0,18}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Noted:
    """A version, and the digest of the chain up to it."""

    version: int
    chain: str

    @classmethod
    def parse(cls, text: str) -> Noted:
        """From ``VERSION:DIGEST``, as ``verify`` prints it. Raises Invalid."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise Invalid(
                f"the chain {text!r} is none, expected VERSION:DIGEST with 64 hexadecimal digits, "
                "as 'blockstore verify' prints it"
            )
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.version}:{self.chain}"


def check_noted(bucket: ReadBucket, world: World, noted: Noted) -> Iterator[Finding]:
    """What is wrong if the history does not lead through the noted version, or if that cannot be
    told."""
    try:
        last = Log(bucket, world).at(noted.version).last
    except Unavailable:
        raise
    except VersionExpired as error:
        yield _finding(
            noted,
            Severity.WARNING,
            f"version {noted.version} was collected, so nobody can tell: {error}",
            "note a newer one; tag a version to keep it",
        )
    except NotFound:
        yield _finding(
            noted,
            Severity.ERROR,
            f"version {noted.version} was noted, and the history does not reach it",
            "ask who put the table back from a copy, or made it anew; its newer versions are in a "
            "copy",
        )
    except BlockstoreError as error:
        yield _finding(
            noted,
            Severity.ERROR,
            f"version {noted.version} cannot be read: {error}",
            "mend the index first: see the other findings",
        )
    else:
        if last.chain != noted.chain:
            yield _finding(
                noted,
                Severity.ERROR,
                f"the chain up to version {noted.version} is {last.chain or 'not kept'}, expected "
                f"{noted.chain}: one of the entries up "
                "to it is not the one that was there",
                "compare it with a copy: blockstore history --json shows each entry's 'prev'",
            )


def _finding(noted: Noted, severity: Severity, what: str, fix: str) -> Finding:
    return Finding(
        severity=severity, check=Check.CHAIN, object=entry_key(noted.version), what=what, fix=fix
    )
