"""Gets leaves, proves them, and keeps some of them.

Rules:
- A leaf is believed once its bytes have the hash in its name and its rows the sums in the root (of
  a pass over many leaves: those of columns, see ``sums.py``). Otherwise it is Corrupt.
- A leaf that is not there is ``SnapshotExpired``, never an empty one: what it held is not known. It
  was collected, or lost.
- Leaves that were missed or found damaged are remembered: the reader that opens again passes over
  roots that name them, until one of them is there again as the root says.
- Those used last are kept, up to so many bytes. A pass over all of them keeps none.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from blockstore.bucket.api import Object, ReadBucket
from blockstore.errors import Corrupt, ObjectMissing, SnapshotExpired
from blockstore.index.rows import BULK, FRAME, MemoryBulk, Rows
from blockstore.index.tree.encoding import (
    decode_blocks,
    decode_columns,
    decode_sources,
    unpacked,
)
from blockstore.index.tree.leaf import AnyLeaf, Leaf, Root
from blockstore.index.tree.sums import (
    BlockSums,
    SourceSums,
    sums_of_blocks,
    sums_of_frame,
    sums_of_sources,
)
from blockstore.index.ulids import UlidArray, from_arrow

GetAll: TypeAlias = Callable[[Sequence[str]], Sequence[Object | None]]
"""Gets several objects, None for one that is not there."""

_KEPT_BYTES = 48 << 20
_AT_ONCE = 16
_ROOTS = 2
"""A checkpoint looks at its own and at the one before; most of their leaves are the same
objects."""


@dataclass(frozen=True)
class LoadedBlocks:
    """The rows of a leaf of blocks."""

    table: pa.Table

    @cached_property
    def rows(self) -> Rows:
        """The same, with the objects that are made of them."""
        return Rows(self.table.select(FRAME.names), MemoryBulk(self.table.select(BULK.names)))


class Leaves:
    """The leaves of one table, for one handle. Safe to share between threads."""

    def __init__(self, get_all: GetAll, url: str, handle: object = None) -> None:
        self._get_all = get_all
        self.url = url
        self.handle = handle
        """The ``IndexReader`` whose leaves these are; None for callers that have none."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[LoadedBlocks | UlidArray, int]] = OrderedDict()
        self._bytes = 0
        self._roots: OrderedDict[tuple[int, bytes], Root] = OrderedDict()
        """The last roots, by version and the SHA-256 of their bytes: of ten million blocks one
        takes a third of a second to read."""
        self._bad: set[str] = set()
        """Keys of leaves that were not there, or damaged."""
        self.proven: dict[str, object] = {}
        """What a collector saw of leaves that it has proven, by key."""

    def blocks(self, leaf: Leaf[BlockSums]) -> LoadedBlocks:
        """The rows of a leaf, kept for a while."""
        held = self._known(leaf.sha256)
        if isinstance(held, LoadedBlocks):
            return held
        (data,) = self._fetch([leaf])
        return self._keep_blocks(leaf, data)

    def prefetch(self, leaves: Sequence[Leaf[BlockSums]]) -> None:
        """Get those of some leaves that are not kept side by side, and keep them."""
        for start in range(0, len(leaves), _AT_ONCE):
            some = [one for one in leaves[start : start + _AT_ONCE] if not self._known(one.sha256)]
            for leaf, data in zip(some, self._fetch(some), strict=True):
                self._keep_blocks(leaf, data)

    def each_block_leaf(
        self, leaves: Sequence[Leaf[BlockSums]]
    ) -> Iterator[tuple[int, LoadedBlocks]]:
        """The leaves with their places, in order, got some at a time; none is kept."""
        for place, (leaf, (held, data)) in enumerate(zip(leaves, self._got(leaves), strict=True)):
            yield place, held or self._decoded(leaf, data, in_a_pass=True)

    def each_frame(
        self, leaves: Sequence[Leaf[BlockSums]], names: Sequence[str]
    ) -> Iterator[pa.Table]:
        """Some small columns of the leaves, in order, got some at a time; none is kept."""
        for leaf, (held, data) in zip(leaves, self._got(leaves), strict=True):
            if held is not None:
                yield held.table.select(names)
                continue
            with self._noting(leaf):
                yield decoded_frame(leaf, data, self._name(leaf), names)

    def _got(
        self, leaves: Sequence[Leaf[BlockSums]]
    ) -> Iterator[tuple[LoadedBlocks | None, bytes]]:
        """Each leaf as it is kept, or else its bytes."""
        for start in range(0, len(leaves), _AT_ONCE):
            some = leaves[start : start + _AT_ONCE]
            missing = [one for one in some if not self._known(one.sha256)]
            got = dict(zip([one.sha256 for one in missing], self._fetch(missing), strict=True))
            for leaf in some:
                held = self._known(leaf.sha256)
                if isinstance(held, LoadedBlocks):
                    yield held, b""
                    continue
                data = got.pop(leaf.sha256, None)
                yield None, self._fetch([leaf])[0] if data is None else data

    def sources(self, leaf: Leaf[SourceSums]) -> UlidArray:
        """The sources of a leaf, kept for a while."""
        held = self._known(leaf.sha256)
        if held is None or isinstance(held, LoadedBlocks):
            (data,) = self._fetch([leaf])
            held = self._sources(leaf, data)
            self._keep(leaf.sha256, held, held.nbytes)
        return held

    def each_source_leaf(self, leaves: Sequence[Leaf[SourceSums]]) -> Iterator[UlidArray]:
        """The sources of each leaf, got some at a time; none is kept."""
        for start in range(0, len(leaves), _AT_ONCE):
            some = leaves[start : start + _AT_ONCE]
            for leaf, data in zip(some, self._fetch(some), strict=True):
                yield self._sources(leaf, data)

    def root_in(self, data: bytes, version: int) -> Root | None:
        """The root of a version that is in these bytes, if it was remembered."""
        with self._lock:
            return self._roots.get((version, hashlib.sha256(data).digest()))

    def remember_root(self, data: bytes, root: Root) -> None:
        """Remember the root that these bytes were read as, or made of."""
        key = root.version, hashlib.sha256(data).digest()
        with self._lock:
            self._roots[key] = root
            self._roots.move_to_end(key)
            while len(self._roots) > _ROOTS:
                self._roots.popitem(last=False)

    def misses(self, root: Root) -> bool:
        """Whether a leaf of the root was not there when it was asked for, or damaged."""
        with self._lock:
            return bool(self._bad) and not self._bad.isdisjoint(root.keys)

    def missed(self, keys: Iterable[str]) -> None:
        """Remember leaves that are not there."""
        with self._lock:
            self._bad.update(keys)

    def forget(self) -> bool:
        """Forget what was missed; whether there was anything."""
        with self._lock:
            some, self._bad = bool(self._bad), set()
        return some

    def lacks(self, root: Root) -> str | None:
        """The key of a leaf that was missed before and still is missing or damaged, if the root
        names one: the root is passed over."""
        with self._lock:
            bad = [leaf for leaf in root.leaves if leaf.key in self._bad] if self._bad else []
        for leaf in bad:
            (found,) = self._get_all([leaf.key])
            if found is None or _is_damaged(leaf, found.data):
                return leaf.key
            with self._lock:
                self._bad.discard(leaf.key)
        return None

    def _fetch(self, leaves: Sequence[AnyLeaf]) -> list[bytes]:
        found = self._get_all([leaf.key for leaf in leaves]) if leaves else []
        for leaf, one in zip(leaves, found, strict=True):
            if one is None:
                self.missed([leaf.key])
                raise SnapshotExpired(
                    f"{self._name(leaf)} is not there, and a checkpoint names it: it was collected "
                    "since, or lost; read the table again, and if it is still missing run "
                    f"'blockstore verify {self.url}'"
                )
        return [one.data for one in found if one is not None]

    def _name(self, leaf: AnyLeaf) -> str:
        return f"{leaf.key} of {self.url}"

    def _decoded(
        self, leaf: Leaf[BlockSums], data: bytes, *, in_a_pass: bool = False
    ) -> LoadedBlocks:
        with self._noting(leaf):
            name = self._name(leaf)
            return LoadedBlocks(decoded_blocks(leaf, data, name, in_a_pass=in_a_pass))

    def _sources(self, leaf: Leaf[SourceSums], data: bytes) -> UlidArray:
        with self._noting(leaf):
            return decoded_sources(leaf, data, self._name(leaf))

    @contextmanager
    def _noting(self, leaf: AnyLeaf) -> Iterator[None]:
        try:
            yield
        except Corrupt:
            self.missed([leaf.key])
            raise

    def _keep_blocks(self, leaf: Leaf[BlockSums], data: bytes) -> LoadedBlocks:
        held = self._decoded(leaf, data)
        self._keep(leaf.sha256, held, held.table.nbytes)
        return held

    def _known(self, sha256: str) -> LoadedBlocks | UlidArray | None:
        with self._lock:
            found = self._kept.get(sha256)
            if found is None:
                return None
            self._kept.move_to_end(sha256)
            return found[0]

    def _keep(self, sha256: str, held: LoadedBlocks | UlidArray, size: int) -> None:
        with self._lock:
            if sha256 in self._kept:
                return
            self._kept[sha256] = held, size
            self._bytes += size
            while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= gone


def leaves_of(bucket: ReadBucket) -> Leaves:
    """The leaves in a bucket, got in turn: for callers without a handle."""

    def get_all(keys: Sequence[str]) -> list[Object | None]:
        return [_get(bucket, key) for key in keys]

    return Leaves(get_all, bucket.url)


def _get(bucket: ReadBucket, key: str) -> Object | None:
    try:
        return bucket.get(key)
    except ObjectMissing:
        return None


def _is_damaged(leaf: AnyLeaf, data: bytes) -> bool:
    try:
        check_leaf(leaf, data)
    except Corrupt:
        return True
    return False


def check_leaf(leaf: AnyLeaf, data: bytes) -> None:
    """Raise Corrupt unless the bytes have the leaf's hash and sums."""
    sha256, generation = leaf.sha256, leaf.generation
    if isinstance(leaf.sums, BlockSums):
        decoded_blocks(Leaf(sha256=sha256, generation=generation, sums=leaf.sums), data, leaf.key)
    else:
        decoded_sources(Leaf(sha256=sha256, generation=generation, sums=leaf.sums), data, leaf.key)


def decoded_blocks(
    leaf: Leaf[BlockSums], data: bytes, name: str, *, in_a_pass: bool = False
) -> pa.Table:
    """The rows in an object. Raises Corrupt unless they have the leaf's hash and sums; in a pass
    the JSON of the blocks is not read for that."""
    table = decode_blocks(unpacked(data, leaf.sha256, name), name)
    _check_order(table, name)
    _compare(leaf, sums_of_blocks(table, leaf.sums if in_a_pass else None), name)
    return table


def decoded_frame(
    leaf: Leaf[BlockSums], data: bytes, name: str, names: Collection[str] = FRAME.names
) -> pa.Table:
    """Some small columns of the rows in an object, the ULIDs among them. Raises Corrupt unless they
    have the leaf's hash and the sums over these columns."""
    table = decode_columns(unpacked(data, leaf.sha256, name), name, names)
    _check_order(table, name)
    _compare(leaf, sums_of_frame(table, leaf.sums), name)
    return table


def _check_order(table: pa.Table, name: str) -> None:
    ulids = from_arrow(table["ulid"])
    if not len(ulids) or not (ulids[:-1] < ulids[1:]).all():
        raise Corrupt(f"{name} is empty or not sorted by ULID, or names a block twice")


def decoded_sources(leaf: Leaf[SourceSums], data: bytes, name: str) -> UlidArray:
    """The sources in an object. Raises Corrupt unless they have the leaf's hash and sums."""
    sources = decode_sources(unpacked(data, leaf.sha256, name), name)
    if not len(sources) or not (sources[:-1] < sources[1:]).all():
        raise Corrupt(f"{name} is empty or not sorted, or names a source twice")
    _compare(leaf, sums_of_sources(sources), name)
    return sources


def _compare(leaf: AnyLeaf, found: BlockSums | SourceSums, name: str) -> None:
    if found != leaf.sums:
        raise Corrupt(
            f"{name} does not have the sums that a checkpoint states of it ({found}, stated "
            f"{leaf.sums}): the checkpoint is damaged"
        )
