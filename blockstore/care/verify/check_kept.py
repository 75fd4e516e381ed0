"""A block that only a tag or an older version names: whether what its readers need is there.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from blockstore.care.examine import Examined
from blockstore.care.finding import Finding
from blockstore.care.survey import slim
from blockstore.care.verify.kept import KeptBlock
from blockstore.care.verify.live import differing
from blockstore.format.definition import Definition
from blockstore.names import META, meta_key, object_key

__all__ = ["check_kept", "kept_hash"]


def check_kept(
    block: KeptBlock, found: Examined, definition: Definition, url: str
) -> Iterator[Finding]:
    """The objects of the block that are missing, or that a listing or a look at meta.json shows to
    be others."""
    if not found.directory.objects:
        yield _finding(block, url, "", "the whole directory is missing")
        return
    if found.meta is None:
        yield _finding(block, url, META, found.meta_problem or f"{META} is missing")
    elif others := differing(block.meta, slim(found.meta), definition):
        yield _finding(block, url, META, f"{META} says another {', '.join(others)} than the index")
    for file in block.meta.files:
        listed = found.directory.objects.get(file.path)
        if listed is None:
            yield _finding(block, url, file.path, "a file of the block is missing")
        elif listed.size != file.bytes:
            what = f"a file of the block has {listed.size:,} bytes, expected {file.bytes:,}"
            yield _finding(block, url, file.path, what)


def kept_hash(block: KeptBlock, finding: Finding, url: str) -> Finding:
    """What other bytes than were written mean for this block."""
    told = _finding(block, url, "", f"a file of the block {finding.what}")
    return replace(told, object=finding.object)


def _finding(block: KeptBlock, url: str, path: str, what: str) -> Finding:
    ulid = block.meta.ulid
    return Finding(
        severity=block.severity,
        check=block.check,
        object=object_key(ulid, path) if path else meta_key(ulid),
        block=ulid,
        what=f"{block.who} names the block, and {what}",
        fix=f"blockstore repair {url} --block {ulid} --from REPLICA; without one {block.instead}",
    )
