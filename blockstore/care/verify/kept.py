"""Blocks that only tags and older versions name: readers of those versions need them.

Rule: what is named is decided as for removal (``index/reachable.py``), except that damage is
skipped. A tag that cannot be read is reported elsewhere, and names nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from blockstore.bucket.api import ReadBucket
from blockstore.care.examine import Examined
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.survey import Survey, read_checkpoint, slim
from blockstore.care.verify.live import differing
from blockstore.errors import Corrupt
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.names import META, meta_key, object_key


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBlock:
    """A block that the newest version does not name."""

    meta: BlockMeta
    """As the index has it, without statistics."""
    check: Check
    severity: Severity
    who: str
    """The tag or version that names it, for a message."""
    instead: str
    """What to do if its bytes are lost."""


def kept_blocks(bucket: ReadBucket, index: Survey) -> Mapping[str, KeptBlock]:
    """Return the blocks of tags and of versions above the boundary that are not live, by ULID."""
    if index.state is None:
        return {}
    live = index.state.blocks
    found = {
        ulid: KeptBlock(
            meta=one.block.meta,
            check=Check.VERSION,
            # A repair has replaced it on purpose.
            severity=Severity.NOTE if one.by_repair else Severity.ERROR,
            who=f"version {one.entry - 1}",
            instead="restore it from a copy, or leave it: that version expires with its history",
        )
        for ulid, one in index.removed.items()
        if ulid not in live
    }
    for tag, version in sorted(index.state.tags.items()):
        try:
            tagged = read_checkpoint(bucket, version)
        except Corrupt:
            continue
        for block in tagged.blocks:
            if block.ulid not in live:
                found[block.ulid] = KeptBlock(
                    meta=slim(block.meta),
                    check=Check.TAG,
                    severity=Severity.ERROR,
                    who=f"tag {tag!r}",
                    instead=f"restore it from a copy, or blockstore untag {bucket.url} {tag}",
                )
    return found


def check_kept(
    block: KeptBlock, found: Examined, definition: Definition, url: str
) -> Iterator[Finding]:
    """Report objects of the block that are missing or differ, by the listing and meta.json.

    Pure.
    """
    if not found.directory.objects:
        yield _finding(block, url, "", "the whole directory is missing")
        return
    if found.meta is None:
        yield _finding(block, url, META, found.meta_problem or f"{META} is missing")
    elif others := differing(block.meta, slim(found.meta), definition):
        yield _finding(block, url, META, f"{META} differs from the index in {', '.join(others)}")
    for file in block.meta.files:
        listed = found.directory.objects.get(file.path)
        if listed is None:
            yield _finding(block, url, file.path, "a file of the block is missing")
        elif listed.size != file.bytes:
            what = f"a file of the block has {listed.size:,} bytes, expected {file.bytes:,}"
            yield _finding(block, url, file.path, what)


def kept_hash(block: KeptBlock, finding: Finding, url: str) -> Finding:
    """Return what a corrupt file means for this block."""
    damaged = _finding(block, url, "", f"a file of the block {finding.what}")
    return replace(damaged, object=finding.object)


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
