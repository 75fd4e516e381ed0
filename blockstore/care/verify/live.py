"""A block that the index names: whether what it names is there. Pure.

Rules (R11, R1): readers go by the index's meta, so that is what the listing must hold, every file
with its size; and meta.json, which is never edited, must say the same. Marks do not concern a live
block (3.2), but a person should know; so should they of times that are not those of the table's
time column, by which a block is neither pruned nor expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from blockstore.care.examine import Examined
from blockstore.care.finding import Check, Finding, Severity
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.index.rows import LiveBlock
from blockstore.names import META, deletion_mark_key, meta_key, object_key


def check_live(
    block: LiveBlock,
    found: Examined,
    definition: Definition,
    url: str,
    *,
    unsure: frozenset[str] = frozenset(),
) -> Iterator[Finding]:
    """What is wrong with a live block's directory; fields that are ``unsure`` in the index's meta
    are not compared."""
    yield from _meta(block, found, definition, _repair_fix(url, block.ulid), unsure)
    if found.directory.objects:
        yield from check_files(block.meta, found, url)
    if block.meta.time_column != definition.time_column:
        yield _other_times(block, definition, url)
    if found.mark is not None:
        yield Finding(
            severity=Severity.NOTE,
            check=Check.MARK,
            object=deletion_mark_key(block.ulid),
            block=block.ulid,
            what=f"marked for deletion ({found.mark.reason}) although entry {block.version} names "
            "the block: the mark has no effect",
            fix=f"blockstore mark {url} {block.ulid} --deletion --remove",
        )


def _meta(
    block: LiveBlock, found: Examined, definition: Definition, fix: str, unsure: frozenset[str]
) -> Iterator[Finding]:
    check, problem = Check.BLOCK, None
    if found.meta is not None:
        others = [
            name for name in differing(block.meta, found.meta, definition) if name not in unsure
        ]
        if others:
            check = Check.META
            problem = (
                f"{META} says another {', '.join(others)} than entry {block.version}, and a block "
                "is never edited"
            )
    elif found.meta_problem is not None:
        problem = f"entry {block.version} names the block, and {found.meta_problem}"
    else:
        what = META if found.directory.objects else "the whole directory"
        problem = f"entry {block.version} names the block, and {what} is missing"
    if problem is not None:
        yield Finding(
            severity=Severity.ERROR,
            check=check,
            object=meta_key(block.ulid),
            block=block.ulid,
            what=problem,
            fix=fix,
        )


def _other_times(block: LiveBlock, definition: Definition, url: str) -> Finding:
    """The block is read whole by everyone, so no row is missed; but what should go by time does
    not."""
    return Finding(
        severity=Severity.WARNING,
        check=Check.TIME,
        object=meta_key(block.ulid),
        block=block.ulid,
        what=f"{_times(block.meta.time_column)}, and the table's time column is "
        f"{definition.time_column!r}: queries by time "
        "cannot leave the block out, and retention does not know its age",
        fix=f"blockstore repair {url} --block {block.ulid} writes its rows again by the table's "
        "definition",
    )


def _times(column: str | None) -> str:
    return (
        "its times are those of no column"
        if column is None
        else f"its times are those of {column!r}"
    )


def check_files(meta: BlockMeta, found: Examined, url: str) -> Iterator[Finding]:
    """The files that a block lists and its directory lacks, or shows with another size."""
    for file in meta.files:
        listed = found.directory.objects.get(file.path)
        if listed is not None and listed.size == file.bytes:
            continue
        seen = (
            "is missing"
            if listed is None
            else f"has {listed.size:,} bytes, expected {file.bytes:,}"
        )
        yield Finding(
            severity=Severity.ERROR,
            check=Check.FILE,
            object=object_key(meta.ulid, file.path),
            block=meta.ulid,
            what=f"a file of the block {seen}",
            fix=_repair_fix(url, meta.ulid),
        )


def _repair_fix(url: str, ulid: str) -> str:
    return f"blockstore repair {url} --block {ulid} --from REPLICA, or --drop-damaged"


def differing(indexed: BlockMeta, stored: BlockMeta, definition: Definition) -> list[str]:
    """The fields in which meta.json and the index differ; the schema is compared by the id that the
    definition gives."""
    same = replace(stored, schema=b"", schema_id=definition.id_of(stored.schema) or 0)
    return [
        one.name
        for one in fields(BlockMeta)
        if getattr(indexed, one.name) != getattr(same, one.name)
    ]
