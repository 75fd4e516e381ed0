"""Check that a table's history still contains a version that a person noted, with its digest.

The digest covers the bytes of every entry up to that version (``index/chain.py``). A person who
keeps it elsewhere, such as an auditor, can detect a history that was rewritten, truncated or
restored from a copy.
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
        """Parse ``VERSION:DIGEST``, as ``verify`` prints it. Raises Invalid."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise Invalid(
                f"{text!r} is not a chain, expected VERSION:DIGEST with 64 hexadecimal digits, as "
                "'blockstore verify' prints it"
            )
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.version}:{self.chain}"


def check_noted(bucket: ReadBucket, world: World, noted: Noted) -> Iterator[Finding]:
    """Report if the history does not contain the noted version, or if that is not known."""
    try:
        last = Log(bucket, world).at(noted.version).last
    except Unavailable:
        raise
    except VersionExpired as error:
        yield _finding(
            noted,
            Severity.WARNING,
            f"version {noted.version} was collected, so it cannot be compared: {error}",
            "note a newer version; to keep a version, tag it",
        )
    except NotFound:
        yield _finding(
            noted,
            Severity.ERROR,
            f"version {noted.version} was noted, but the history ends before it",
            "the table was restored from a copy, or created again: find out by whom; its newer "
            "versions may be in another copy",
        )
    except BlockstoreError as error:
        yield _finding(
            noted,
            Severity.ERROR,
            f"version {noted.version} cannot be read: {error}",
            "repair the index first: see the other findings",
        )
    else:
        if last.chain != noted.chain:
            yield _finding(
                noted,
                Severity.ERROR,
                f"the chain up to version {noted.version} is {last.chain or 'not kept'}, expected "
                f"{noted.chain}: an entry up to it was replaced",
                "compare the table with a copy: blockstore history --json shows each entry's "
                "'prev'",
            )


def _finding(noted: Noted, severity: Severity, what: str, fix: str) -> Finding:
    return Finding(
        severity=severity, check=Check.CHAIN, object=entry_key(noted.version), what=what, fix=fix
    )
