"""The hashes of a block's segments, by which a reader checks a range of a file, not all of it.

The problem: meta.json has the SHA-256 of each file, and a range of bytes cannot be compared with
that. So each block with a file of more than ``WHOLE_BYTES`` has one more object, with the SHA-256
of every 64 KiB of every chunk. Its own SHA-256 is in meta.json and in the index.

Rules:
- The object holds a line of JSON, which names the chunks with their sizes, and then the hashes,
  32 bytes each: chunk after chunk, segment after segment. A chunk's last segment may be shorter.
- It is stored before meta.json and is not one of the block's ``files``. A block without it is
  complete: what is lost is speed, since its files can still be read whole. The same holds where it
  is damaged. Only bytes that match its SHA-256 are believed.
- What it says depends on the chunks alone: copies of a block under another ULID have the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt
from blockstore.format.block import ChunkFile, SegmentsFile
from blockstore.format.document import parse
from blockstore.names import is_chunk_path, object_key, segments_path

SEGMENT_BYTES = 64 * 1024

WHOLE_BYTES = 1 << 20
"""A block none of whose chunks is larger has no segments: its chunks are read whole."""

DIGEST_BYTES = 32

Digests = bytes
Piece = bytes | memoryview

_VERSION = 1
_END = b"\n"


def segments_in(size: int) -> int:
    """Return the number of segments of a file of ``size`` bytes."""
    return -(-size // SEGMENT_BYTES)


@dataclass(frozen=True, slots=True)
class FileSegments:
    """The hashes of one file's segments."""

    path: str
    bytes: int
    """The size of the file."""
    digests: Digests
    """32 bytes for each segment: of the bytes [i * 64 KiB, (i + 1) * 64 KiB)."""

    def differing(self, other: FileSegments) -> tuple[int, ...]:
        """Return the numbers of the segments that have another hash in ``other``."""
        return tuple(
            number
            for number in range(segments_in(self.bytes))
            if _digest(self.digests, number) != _digest(other.digests, number)
        )

    def check(self, first: int, data: Piece) -> None:
        """Raise Corrupt, naming the file and the bytes, unless ``data`` is what was written.

        Args:
            first: The number of the first segment, from 0.
            data: Whole segments from that one on; only the file's last may be shorter.
        """
        view = memoryview(data)
        start = first * SEGMENT_BYTES
        end = start + len(view)
        if first < 0 or end > self.bytes or (end % SEGMENT_BYTES and end != self.bytes):
            raise Corrupt(
                f"{self.path}: found the bytes from {start:,} to {end:,}, expected whole segments "
                f"of {SEGMENT_BYTES:,} bytes of a file of {self.bytes:,}"
            )
        for offset in range(0, len(view), SEGMENT_BYTES):
            piece = view[offset : offset + SEGMENT_BYTES]
            expected = _digest(self.digests, first + offset // SEGMENT_BYTES)
            if hashlib.sha256(piece).digest() != expected:
                begin = start + offset
                raise Corrupt(
                    f"{self.path}: the bytes from {begin:,} to {begin + len(piece):,} do not match "
                    "their SHA-256: restore the file from a copy"
                )


def _digest(digests: Digests, number: int) -> Digests:
    return digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]


class FileHashes:
    """The hashes of one file, taken while its bytes go by: of all of it, and of each segment."""

    __slots__ = ("_digests", "_filled", "_part", "_whole", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._whole = hashlib.sha256()
        self._digests = bytearray()
        self._part = hashlib.sha256()
        self._filled = 0
        """The bytes of the segment that is not complete."""

    def update(self, data: Piece) -> None:
        """Take the next bytes."""
        self._whole.update(data)
        view = memoryview(data)
        self.bytes += len(view)
        start = 0
        while start < len(view):
            piece = view[start : start + SEGMENT_BYTES - self._filled]
            start += len(piece)
            self._part.update(piece)
            self._filled += len(piece)
            if self._filled == SEGMENT_BYTES:
                self._digests += self._part.digest()
                self._part = hashlib.sha256()
                self._filled = 0

    @property
    def sha256(self) -> str:
        """The hash of all bytes so far."""
        return self._whole.hexdigest()

    def segments(self, path: str) -> FileSegments:
        """Return the hashes of the segments of the file ``path``, which has these bytes."""
        last = self._part.digest() if self._filled else b""
        return FileSegments(path, self.bytes, bytes(self._digests) + last)


def encode_segments(files: Iterable[FileSegments]) -> bytes:
    """Return the bytes of the object for these files, in this order."""
    listed = list(files)
    head = {
        "version": _VERSION,
        "segment_bytes": SEGMENT_BYTES,
        "files": [{"path": file.path, "bytes": file.bytes} for file in listed],
    }
    return b"".join([orjson.dumps(head), _END, *(file.digests for file in listed)])


def decode_segments(
    data: bytes, files: Iterable[ChunkFile], expected: SegmentsFile, *, subject: str = "segments"
) -> Mapping[str, FileSegments]:
    """Return the hashes in the object's bytes, by path.

    Args:
        data: The bytes.
        files: Chunks of the block, all or some; the object must have each, with its size.
        expected: What the block's meta says of the object.
        subject: The object's name in errors.

    Raises:
        Corrupt: The bytes are not those that were written, or do not fit the chunks.
    """
    if len(data) != expected.bytes or hashlib.sha256(data).hexdigest() != expected.sha256:
        raise Corrupt(
            f"{subject} has {len(data):,} bytes that are not the {expected.bytes:,} whose SHA-256 "
            "its block lists: run blockstore repair"
        )
    head, _, rest = data.partition(_END)
    found: dict[str, FileSegments] = {}
    at = 0
    for path, size in _listed(head, subject):
        end = at + segments_in(size) * DIGEST_BYTES
        found[path] = FileSegments(path, size, rest[at:end])
        at = end
    if at != len(rest):
        raise Corrupt(
            f"{subject} has {len(rest):,} bytes of hashes, expected {at:,} for its "
            f"{len(found):,} files: run blockstore repair"
        )
    for file in files:
        known = found.get(file.path)
        if is_chunk_path(file.path) and (known is None or known.bytes != file.bytes):
            raise Corrupt(
                f"{subject} does not have the segments of {file.path} with {file.bytes:,} bytes: "
                "run blockstore repair"
            )
    return found


def _listed(head: bytes, subject: str) -> Sequence[tuple[str, int]]:
    document = parse(head, subject)
    document.integer("version", low=_VERSION, high=_VERSION)
    document.integer("segment_bytes", low=SEGMENT_BYTES, high=SEGMENT_BYTES)
    listed = [
        (one.text("path", limit=200), one.integer("bytes")) for one in document.documents("files")
    ]
    if not all(is_chunk_path(path) for path, _ in listed) or len(dict(listed)) != len(listed):
        document.fail("files", "each chunk of the block once")
    return listed


def load_segments(
    bucket: ReadBucket, ulid: str, ref: SegmentsFile, files: Iterable[ChunkFile]
) -> Mapping[str, FileSegments]:
    """Return the hashes of a block's segments, by path: one GET.

    Raises ObjectMissing or Corrupt as ``decode_segments``; in both cases the block's files can
    still be read whole.
    """
    key = object_key(ulid, segments_path(ref.sha256))
    return decode_segments(bucket.get(key).data, files, ref, subject=key)


def packed(files: Sequence[FileSegments]) -> tuple[bytes, SegmentsFile] | None:
    """Return the object for the chunks of a block and its description; None if it needs none."""
    if all(file.bytes <= WHOLE_BYTES for file in files):
        return None
    data = encode_segments(files)
    return data, described(data)


def described(data: bytes) -> SegmentsFile:
    """Return what meta.json says of the object with these bytes."""
    return SegmentsFile(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
