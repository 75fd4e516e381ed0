"""Check a block that the index names. Pure.

Rules (R11, R1): readers use the index's meta, so the listing must have every file of it with its
size, and meta.json, which is never edited, must say the same. A mark has no effect on a live block
(3.2), but is reported. So are times that are not those of the table's time column: such a block is
neither pruned nor expired by time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from blockstore.care.examine import Examined
from blockstore.care.finding import Check, Finding, Severity
from blockstore.format.block import BlockMeta, ChunkFile
from blockstore.format.definition import Definition
from blockstore.format.names_now import time_column_of
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
    """Report what is wrong with a live block's directory.

    Fields of the index's meta that are ``unsure`` are not compared.
    """
    yield from _meta(block, found, definition, _repair_fix(url, block.ulid), unsure)
    if found.directory.objects:
        yield from check_files(block.meta, found, url)
    if time_column_of(block.meta, definition) != definition.time_column:
        yield _other_times(block, definition, url)
    if found.mark is not None:
        yield Finding(
            severity=Severity.NOTE,
            check=Check.MARK,
            object=deletion_mark_key(block.ulid),
            block=block.ulid,
            what=f"marked for deletion ({found.mark.reason}), but entry {block.version} names the "
            "block: the mark has no effect",
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
                f"{META} differs from entry {block.version} in {', '.join(others)}, but a block is "
                "never edited"
            )
    elif found.meta_problem is not None:
        problem = f"entry {block.version} names the block, but {found.meta_problem}"
    else:
        what = META if found.directory.objects else "the whole directory"
        problem = f"entry {block.version} names the block, but {what} is missing"
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
    """Report other times: readers read all of the block, but pruning and retention do not work."""
    return Finding(
        severity=Severity.WARNING,
        check=Check.TIME,
        object=meta_key(block.ulid),
        block=block.ulid,
        what=f"{_times(block.meta.time_column)}, but the table's time column is "
        f"{definition.time_column!r}: queries by time cannot skip the block, and retention does "
        "not know its age",
        fix=f"blockstore repair {url} --block {block.ulid} writes its rows again with the table's "
        "definition",
    )


def _times(column: str | None) -> str:
    return "it has no time column" if column is None else f"its time column is {column!r}"


def check_files(meta: BlockMeta, found: Examined, url: str) -> Iterator[Finding]:
    """Report files that a block lists and that are missing or have another size."""
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
    """Return the fields in which meta.json and the index differ.

    The schema is compared by its id in the definition, unless it is of a table that was dropped
    before, whose schemas are no longer known. A footer counts where both know it: releases
    before 0.2 leave it out of what they write to the index.
    """
    is_known = indexed.schema_id in definition.schemas
    same = replace(
        stored,
        schema=b"",
        schema_id=(definition.id_of(stored.schema) or 0) if is_known else indexed.schema_id,
        files=_with_footers_of(indexed.files, stored.files),
    )
    return [
        one.name
        for one in fields(BlockMeta)
        if getattr(indexed, one.name) != getattr(same, one.name)
    ]


def _with_footers_of(
    known: tuple[ChunkFile, ...], files: tuple[ChunkFile, ...]
) -> tuple[ChunkFile, ...]:
    """Return ``files`` without the footers that ``known`` does not say."""
    silent = {file.path for file in known if file.footer is None}
    return tuple(replace(file, footer=None) if file.path in silent else file for file in files)
