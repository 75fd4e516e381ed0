"""Check the files that cells name: each is there, with its size; a deep check reads its bytes.

Rules:
- What blocks name is read from their file columns, also of blocks that only a tag or an older
  version names. A block that cannot be read is reported by other checks, and names nothing here.
- A table that never had a column of files costs nothing. Of any other each file is looked at once.
- A file that no row names is no finding: the compactor removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Finding, Severity
from blockstore.errors import Corrupt, Invalid, NotFound, ObjectMissing
from blockstore.files.named import NamedFile, ever_had_files, named_by_block
from blockstore.files.reading import checked_pieces, find_file
from blockstore.format.block import BlockMeta
from blockstore.format.file_handle import handle_of
from blockstore.format.meta import load_meta
from blockstore.format.schema import deserialize
from blockstore.index.state import State
from blockstore.names import FILE_RECORD, FILES, file_key, split_file_key
from blockstore.world import World

_AT_ONCE = 64


def check_files(
    bucket: ReadBucket,
    world: World,
    state: State | None,
    kept: Iterable[BlockMeta],
    *,
    deep: bool,
    damaged: Collection[str],
) -> Iterator[Finding]:
    """Report files that a row names and that are missing or damaged.

    Args:
        bucket: the table.
        world: the threads.
        state: the version to check.
        kept: blocks that only tags and older versions name.
        deep: whether to read every file.
        damaged: blocks of which something else is reported.
    """
    if state is None or not ever_had_files(state.definition, state.required_before):
        return
    sizes: dict[str, dict[str, int]] = {}
    for info in bucket.list(FILES):
        place = split_file_key(info.key)
        if place is not None:
            sizes.setdefault(place[0], {})[place[1]] = info.size
    seen: set[str] = set()
    live = [block.meta for block in state.blocks]
    for number, meta in enumerate((*live, *kept)):
        if meta.ulid in damaged:
            continue
        new: dict[str, NamedFile] = {}
        try:
            # One of an older version may be of a dropped table: its schema id says nothing.
            own = number >= len(live) and state.created > 1
            schema = (
                deserialize(load_meta(bucket, meta.ulid).schema)
                if own
                else state.definition.schemas.get(meta.schema_id)
            )
            if schema is None:
                continue
            for one in named_by_block(bucket, meta, schema):
                new.setdefault(str(one.handle["id"]), one)
        except (Corrupt, ObjectMissing):
            continue
        wanted = [one for file, one in new.items() if file not in seen]
        seen.update(new)
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            problems = world.pool.map(lambda one: _problem(bucket, one, sizes, deep=deep), some)
            for one, problem in zip(some, problems, strict=True):
                if problem is not None:
                    yield _finding(bucket.url, meta.ulid, one, problem, live=number < len(live))


def _problem(
    bucket: ReadBucket, one: NamedFile, sizes: Mapping[str, Mapping[str, int]], *, deep: bool
) -> str | None:
    try:
        handle = handle_of(one.handle)
        objects = sizes.get(handle["id"], {})
        found = [size for path, size in objects.items() if path != FILE_RECORD]
        if FILE_RECORD not in objects or handle["bytes"] not in found:
            # It may be younger than the listing.
            key = find_file(bucket, handle)
            size = bucket.head(key).size
            if size != handle["bytes"]:
                return f"{key} has {size:,} bytes, expected {handle['bytes']:,}"
        if deep:
            for _ in checked_pieces(bucket, handle, find_file(bucket, handle)):
                pass
    except (Corrupt, Invalid, NotFound, ObjectMissing) as error:
        return str(error)
    return None


def _finding(url: str, block: str, one: NamedFile, problem: str, *, live: bool) -> Finding:
    folder = file_key(str(one.handle["id"]), "")
    instead = (
        ", or set the cell to another file or to null"
        if live
        else "; only a tag or an older version has the row: without a replica untag it, or leave it"
    )
    return Finding(
        severity=Severity.ERROR,
        check=Check.CELL,
        object=folder,
        block=block,
        what=f"column {one.column!r} names the file {one.handle.get('name')!r}: {problem}",
        fix=f"copy {folder} from a replica of {url}{instead}",
    )
