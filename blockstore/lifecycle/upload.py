"""The end of an upload: meta.json last, then two looks, in this order (R3).

Rules:
- meta.json is PUT after every chunk's PUT has returned. Where the rows will rest on the block's age
  (``finish_upload``, ``look_again``) the uploader then looks *first* for a deletion mark, *then* at
  the listing, which must hold every chunk with its size. The other order would miss a removal
  between the looks: the mark goes last (R7), so a directory without a mark whose chunks are all
  there was not being removed. What a listing does not show is requested by name, since listings may
  lag.
- A block that an entry is to name (``finish_for_entry``) needs neither: nothing above the horizon
  is taken for an aborted upload, and the commit refuses what is not above it. Its chunks are
  requested by name side by side with the PUT of meta.json, which costs no time: a copy of the
  bucket that was put back a moment ago may lack them.
- A mark, whatever its reason, refuses the upload: its chunks are copied under a new ULID that keeps
  the sources, with ``revision`` + 1, so that no reader ever counts the rows twice, whatever becomes
  of the mark.
- A lost response is queried until the result is known. When that takes too long, or once a
  meta.json may be in the bucket and the store refuses to say more, ``Indeterminate`` carries the
  ULID under which the write began, and ``resume`` finishes it: its rows, seen under any ULID, count
  once.
- Rows are never called refused while another upload of them may yet be seen, nor uploaded again
  once a merge holds them (``holders.py``).
- The hashes of segments (``format/segments.py``) are stored before meta.json, and no look asks for
  them: a block without them is complete.
- R10: an upload that took longer than the upload timeout continues under a new ULID, which keeps
  the sources.
- Nothing is deleted here: a refused upload is the compactor's to remove.

Cost when nothing goes wrong: one PUT, one HEAD (the mark, a 404), one LIST of the block's
directory, in turn. For an entry: one PUT, and side by side with it a HEAD for each chunk, or one
LIST where there are many.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import (
    AccessDenied,
    BlockCondemned,
    BlockstoreError,
    Corrupt,
    Indeterminate,
    NoSpace,
    ObjectMissing,
    Throttled,
    Unavailable,
)
from blockstore.files.look import look_again as look_at_files
from blockstore.format.block import BlockMeta, ChunkFile, VisibleBy
from blockstore.format.document import sealed
from blockstore.format.meta import encode, load_meta
from blockstore.format.properties import UPLOAD_TIMEOUT_S
from blockstore.format.segments import FileHashes, FileSegments, packed
from blockstore.lifecycle.holders import holders
from blockstore.names import (
    deletion_mark_key,
    is_chunk_path,
    meta_key,
    object_key,
    segments_path,
)
from blockstore.world import World

ASK_S = 60.0
"""For so many seconds the result of a lost response is queried."""

_ATTEMPTS = 5
_NAMED = 8
"""So many files are requested by name; more of them by a listing."""
_COPY_BYTES = 8 * 1024 * 1024

T = TypeVar("T")


def finish_upload(
    bucket: Bucket, world: World, meta: BlockMeta, *, ask_s: float = ASK_S
) -> BlockMeta:
    """Make a block whose chunks are all uploaded complete; returns the block that holds, under R3,
    its rows.

    That is ``meta``, also where a merge of it holds them by now, or its successor under another
    ULID where a mark refused it. Raises BlockCondemned where chunks are gone and no other block
    holds the rows (write them again), Indeterminate where the store does not show it.
    """

    def finish(meta: BlockMeta, asking: _Asking) -> _Refusal | None:
        _put_meta(bucket, meta, asking)
        return _refusal(bucket, meta, asking)

    return _finished(bucket, world, meta, ask_s, finish)


def finish_for_entry(
    bucket: Bucket,
    world: World,
    meta: BlockMeta,
    *,
    slow: bool,
    meanwhile: Callable[[], object] | None = None,
    ask_s: float = ASK_S,
) -> BlockMeta:
    """Make a block whose chunks are all uploaded complete, for an entry of the index that is to
    name it next; returns the block to name.

    Until that entry is committed the rows rest on nothing: where it is not, ``look_again`` is owed.

    Args:
        bucket: the table's store.
        world: the process.
        meta: the block.
        slow: whether requests of this store are worth a thread each.
        meanwhile: a request that the caller needs next, made at the same time; it raises nothing.
        ask_s: for so long the result of a lost response is queried.

    Raises:
        BlockCondemned: chunks are gone, and no other block holds the rows: write them again.
        Indeterminate: the store does not show it.
    """

    def finish(meta: BlockMeta, asking: _Asking) -> _Refusal | None:
        requests: list[Callable[[], object]] = [
            lambda: _put_meta(bucket, meta, asking),
            *_looks_at_files(bucket, meta, _asking(world, meta.ulid, ask_s, begun=_begun(meta))),
        ]
        if meanwhile is not None:
            requests.append(meanwhile)
        results = (
            world.pool.map(lambda request: request(), requests)
            if slow
            else [request() for request in requests]
        )
        return next((one for one in results if isinstance(one, _Refusal)), None)

    return _finished(bucket, world, meta, ask_s, finish)


def look_again(bucket: Bucket, world: World, meta: BlockMeta, *, ask_s: float = ASK_S) -> BlockMeta:
    """R3's looks at a block that is complete, and that its writer has no entry for after all;
    returns and raises what ``finish_upload`` does."""
    asking = _asking(world, meta.ulid, ask_s, begun=_begun(meta))
    return _looked_at(bucket, world, meta, asking, ask_s)


def _finished(
    bucket: Bucket,
    world: World,
    meta: BlockMeta,
    ask_s: float,
    finish: Callable[[BlockMeta, _Asking], _Refusal | None],
) -> BlockMeta:
    for _ in range(_ATTEMPTS):
        refusal = finish(meta, _asking(world, meta.ulid, ask_s, begun=_begun(meta)))
        if refusal is None:
            return meta
        held, meta = _elsewhere(bucket, world, meta, refusal, ask_s)
        if held:
            return meta
    raise Indeterminate(
        f"block {meta.ulid} and {_ATTEMPTS - 1} uploads of the same rows before it were each "
        "marked for deletion before they were complete: compare this machine's clock with the "
        f"store's, then resume with {_begun(meta)}",
        ulid=_begun(meta),
    )


def resume(bucket: Bucket, world: World, ulid: str, *, ask_s: float = ASK_S) -> BlockMeta | None:
    """Finish the upload of a block whose fate is unknown, as ``finish_upload`` does.

    None: its meta.json was never written, so nothing of it will be seen: write its rows again.
    """
    asking = _asking(world, ulid, ask_s, begun=ulid)
    try:
        meta = asking.until_known(lambda: load_meta(bucket, ulid), "its meta.json")
    except ObjectMissing:
        return None
    return _looked_at(bucket, world, meta, asking, ask_s)


def _looked_at(
    bucket: Bucket, world: World, meta: BlockMeta, asking: _Asking, ask_s: float
) -> BlockMeta:
    refusal = _refusal(bucket, meta, asking)
    if refusal is None:
        return meta
    held, meta = _elsewhere(bucket, world, meta, refusal, ask_s)
    return meta if held else finish_upload(bucket, world, meta, ask_s=ask_s)


def upload_again(
    bucket: Bucket, world: World, refused: BlockMeta, *, ask_s: float = ASK_S
) -> BlockMeta:
    """Copy the chunks of a refused block under a new ULID; its meta.json is the caller's to write
    (``finish_upload``).

    Raises BlockCondemned where the chunks are gone, and Invalid where a file of its rows is. Giving
    up is Indeterminate under the refused ULID: once its mark is withdrawn its rows may be seen.
    """
    asking = _asking(world, refused.ulid, ask_s, begun=_begun(refused))
    again = successor(refused, world.ids.ulid(), world.clock.now_ms())

    def copy(file: ChunkFile) -> FileSegments:
        return asking.until_known(
            lambda: copy_file(bucket, refused.ulid, again.ulid, file), file.path
        )

    try:
        copied = world.pool.map(copy, refused.files)
    except ObjectMissing as error:
        raise BlockCondemned(
            f"block {refused.ulid} is being removed ({error}): its upload took longer than "
            "partial_delay; append the rows again"
        ) from None
    if refused.level == 1:
        asking.until_known(lambda: look_at_files(bucket, world, again), "the files that it names")
    found = packed([one for one in copied if is_chunk_path(one.path)])
    if found is None:
        return replace(again, segments=None)
    data, ref = found
    key = object_key(again.ulid, segments_path(ref.sha256))
    asking.until_known(lambda: bucket.put(key, data), "the hashes of its segments")
    return replace(again, segments=ref)


def in_time(bucket: Bucket, world: World, meta: BlockMeta, begun_ms: int) -> BlockMeta:
    """The block, its chunks uploaded and its meta.json not yet written, or, where the upload began
    longer than the upload timeout ago (R10), its copy under a new ULID: nothing that old may be
    taken for a living upload.

    ``begun_ms`` is by this process's clock.
    """
    if world.clock.now_ms() - begun_ms <= UPLOAD_TIMEOUT_S * 1000:
        return meta
    return upload_again(bucket, world, meta)


def successor(meta: BlockMeta, ulid: str, uploaded_time: int) -> BlockMeta:
    """A refused block's rows under a new ULID: the same sources, one revision up."""
    return replace(
        meta, ulid=ulid, revision=meta.revision + 1, own=False, uploaded_time=uploaded_time
    )


@dataclass(slots=True)
class _Asking:
    """Repeats a query about one block until the store responds or the time is over."""

    world: World
    ulid: str
    begun: str
    """The ULID under which the write began: a refused block's, where this one succeeds it."""
    until_s: float
    maybe_applied: bool = True
    """Whether a meta.json of these rows may be in the bucket: then giving up is Indeterminate."""

    def until_known(self, ask: Callable[[], T], what: str) -> T:
        tries = 0
        while True:
            try:
                return ask()
            except (NoSpace, AccessDenied) as error:
                raise self.given_up(what, error) from error
            except Unavailable as error:
                tries += 1
                self.pause(tries, what, error)

    def pause(self, tries: int, what: str, error: Unavailable) -> None:
        """Wait with full jitter; raise instead once the time is over."""
        left_s = self.until_s - self.world.clock.monotonic_s()
        if left_s <= 0:
            raise self.given_up(what, error) from error
        self.world.clock.sleep(min(left_s, self.world.ids.uniform(0.01, min(5.0, 0.1 * 2**tries))))

    def given_up(self, what: str, error: BlockstoreError) -> BlockstoreError:
        """What to raise when the store will not say more."""
        if not self.maybe_applied:
            return error
        return Indeterminate(
            f"block {self.ulid}: the store did not respond about {what} ({error}): resume the "
            f"append with the ULID {self.begun}",
            ulid=self.begun,
        )


def _asking(world: World, ulid: str, ask_s: float, *, begun: str) -> _Asking:
    return _Asking(world=world, ulid=ulid, begun=begun, until_s=world.clock.monotonic_s() + ask_s)


def _begun(meta: BlockMeta) -> str:
    """The ULID under which the write of this block began, whatever it was uploaded as since."""
    return meta.sources[0] if meta.level == 1 else meta.ulid


def _put_meta(bucket: Bucket, meta: BlockMeta, asking: _Asking) -> None:
    key, data = meta_key(meta.ulid), sealed(encode(meta))
    asking.maybe_applied = asking.begun != meta.ulid
    tries = 0
    while True:
        try:
            bucket.put(key, data)
        except (NoSpace, Throttled) as error:
            # Not applied: nothing to query.
            if isinstance(error, NoSpace) and not asking.maybe_applied:
                raise
            tries += 1
            asking.pause(tries, "its meta.json", error)
        except AccessDenied as error:
            raise asking.given_up("its meta.json", error) from error
        except Unavailable:
            asking.maybe_applied = True
            if asking.until_known(lambda: _holds(bucket, key, data), "its meta.json"):
                break
        else:
            break
    asking.maybe_applied = True


def _holds(bucket: ReadBucket, key: str, data: bytes) -> bool:
    try:
        return bucket.get(key).data == data
    except ObjectMissing:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """Why an upload does not count: a deletion mark is on it, or files are gone and no mark is
    left."""

    marked: bool
    problem: str


def _refusal(bucket: ReadBucket, meta: BlockMeta, asking: _Asking) -> _Refusal | None:
    return asking.until_known(lambda: _look(bucket, meta), "its checks")


def _look(bucket: ReadBucket, meta: BlockMeta) -> _Refusal | None:
    """R3's two looks, in their order."""
    if is_there(bucket, deletion_mark_key(meta.ulid)):
        return _Refusal(marked=True, problem="it is marked for deletion, and files of it are gone,")
    return _gone(_difference(bucket, meta))


def _looks_at_files(
    bucket: ReadBucket, meta: BlockMeta, asking: _Asking
) -> list[Callable[[], _Refusal | None]]:
    """Requests that show whether the files of a block are there."""
    if len(meta.files) > _NAMED:
        return [lambda: asking.until_known(lambda: _gone(_difference(bucket, meta)), "its files")]

    def look(file: ChunkFile) -> _Refusal | None:
        key = object_key(meta.ulid, file.path)
        return asking.until_known(lambda: _gone(_differs(file, _size(bucket, key))), file.path)

    return [partial(look, file) for file in meta.files]


def _gone(problem: str | None) -> _Refusal | None:
    return None if problem is None else _Refusal(marked=False, problem=problem)


def _elsewhere(
    bucket: Bucket, world: World, meta: BlockMeta, refusal: _Refusal, ask_s: float
) -> tuple[bool, BlockMeta]:
    """Where a refused block's rows are: (True, the block to return), or (False, a copy that waits
    for its meta.json).

    Raises BlockCondemned where they are nowhere.
    """
    asking = _asking(world, meta.ulid, ask_s, begun=_begun(meta))
    others = []
    if meta.level == 1 and meta.visible_by is VisibleBy.AGE:
        others = asking.until_known(lambda: holders(bucket, meta), "its rows")
    if any(other.level > 1 for other in others):
        return True, meta
    places = [meta] if refusal.marked else []
    for other in others:
        found = _refusal(bucket, other, asking)
        if found is None:
            return True, other
        if found.marked:
            places.append(other)
    for place in places:
        with suppress(BlockCondemned):
            return False, upload_again(bucket, world, place, ask_s=ask_s)
    raise BlockCondemned(
        f"block {meta.ulid}: {refusal.problem} although it was uploaded; the upload was taken "
        "for an aborted one and removed: append the rows again"
    )


def _difference(bucket: ReadBucket, meta: BlockMeta) -> str | None:
    """What of the block's files the store does not hold, as a clause; None if it holds them all."""
    sizes = {found.key: found.size for found in bucket.list(object_key(meta.ulid, ""))}
    for file in meta.files:
        key = object_key(meta.ulid, file.path)
        problem = _differs(file, sizes.get(key) or _size(bucket, key))
        if problem is not None:
            return problem
    return None


def _differs(file: ChunkFile, size: int | None) -> str | None:
    if size is None:
        return f"{file.path} is missing"
    if size != file.bytes:
        return f"{file.path} has {size:,} bytes, expected {file.bytes:,},"
    return None


def _size(bucket: ReadBucket, key: str) -> int | None:
    """What the store itself says of an object that a listing does not show: listings may lag by
    minutes."""
    try:
        return bucket.head(key).size
    except ObjectMissing:
        return None


def copy_file(bucket: Bucket, source: str, target: str, file: ChunkFile) -> FileSegments:
    """Copy a file of block ``source`` into the directory of block ``target``, piece by piece, its
    hash compared on the way; returns the hashes of its segments.

    Raises ObjectMissing where it is gone, and Corrupt where it holds something else; then nothing
    is visible.
    """
    hashes = FileHashes()
    key = object_key(source, file.path)
    writer = bucket.writer(object_key(target, file.path))
    try:
        for start in range(0, file.bytes, _COPY_BYTES):
            piece = bucket.get_range(key, start, min(_COPY_BYTES, file.bytes - start))
            hashes.update(piece)
            writer.write(piece)
        if hashes.sha256 != file.sha256:
            raise Corrupt(
                f"block {source}: {file.path} does not have the SHA-256 that its meta.json states: "
                "restore it from a copy, or append the rows again"
            )
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return hashes.segments(file.path)
