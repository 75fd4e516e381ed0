"""One block by itself, byte by byte: what ``repair`` looks at where a person names one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from blockstore.bucket.api import ReadBucket
from blockstore.care.examine import Examined, examine, list_directory
from blockstore.care.finding import Check, Finding, Severity
from blockstore.care.verify.deep import check_deep
from blockstore.care.verify.live import check_files, check_live
from blockstore.errors import NotFound
from blockstore.format.schema import serialize
from blockstore.index.state import State
from blockstore.names import META, meta_key
from blockstore.world import World

__all__ = ["check_block"]


def check_block(
    bucket: ReadBucket, world: World, state: State | None, ulid: str
) -> Iterator[Finding]:
    """What is wrong with a block, live or not. Raises NotFound where there is none."""
    found = examine(bucket, list_directory(bucket, ulid))
    live = None if state is None else state.blocks.get(ulid)
    if live is None and not found.directory.objects:
        raise NotFound(
            f"there is no block {ulid} in {bucket.url}: its directory is empty; 'blockstore "
            "inspect' lists the blocks"
        )
    if live is not None and state is not None:
        yield from check_live(live, found, state.definition, bucket.url)
        schema = serialize(state.definition.schemas[live.meta.schema_id])
        yield from check_deep(
            bucket, world, [(replace(live.meta, schema=schema), Severity.ERROR)], bucket.url
        )
    elif found.meta is None:
        yield _unreadable(found, bucket.url)
    else:
        yield from check_files(found.meta, found, bucket.url)
        yield from check_deep(bucket, world, [(found.meta, Severity.WARNING)], bucket.url)


def _unreadable(found: Examined, url: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        check=Check.BLOCK,
        object=meta_key(found.ulid),
        block=found.ulid,
        what=found.meta_problem or f"{META} is missing",
        fix=f"blockstore repair {url} --block {found.ulid} --from REPLICA",
    )
