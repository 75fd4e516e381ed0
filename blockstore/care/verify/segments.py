"""Check the hashes of a block's segments: whether they are there, and what was written.

Rule: a block without them is complete and every row of it can be read, so what is wrong here is a
warning, and never a reason to replace the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from blockstore.bucket.api import ReadBucket
from blockstore.care.examine import Examined
from blockstore.care.finding import Check, Finding, Severity
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.segments import FileSegments, load_segments
from blockstore.names import object_key, segments_path


def check_segments(meta: BlockMeta, found: Examined, url: str) -> Iterator[Finding]:
    """Report the object of the hashes if it is missing or has another size, by the listing."""
    if meta.segments is None:
        return
    listed = found.directory.objects.get(segments_path(meta.segments.sha256))
    if listed is None:
        yield segments_finding(meta, "are missing", url)
    elif listed.size != meta.segments.bytes:
        what = f"have {listed.size:,} bytes, expected {meta.segments.bytes:,}"
        yield segments_finding(meta, what, url)


def read_segments(
    bucket: ReadBucket, meta: BlockMeta, url: str
) -> tuple[Mapping[str, FileSegments], Finding | None]:
    """Return the hashes of the block's segments, by path, and what is wrong with them.

    Those that are missing or have another size are not reported: the listing shows it.
    """
    ref = meta.segments
    if ref is None:
        return {}, None
    try:
        return load_segments(bucket, meta.ulid, ref, meta.files), None
    except ObjectMissing:
        return {}, None
    except Corrupt:
        head = bucket.head(object_key(meta.ulid, segments_path(ref.sha256)))
        if head.size != ref.bytes:
            return {}, None
        return {}, segments_finding(meta, "do not match the SHA-256 that the block lists", url)


def segments_finding(meta: BlockMeta, what: str, url: str) -> Finding:
    """Return the finding that the hashes of the block's segments are not as they were written."""
    assert meta.segments is not None, "only a block that names them lacks them"
    return Finding(
        severity=Severity.WARNING,
        check=Check.SEGMENTS,
        object=object_key(meta.ulid, segments_path(meta.segments.sha256)),
        block=meta.ulid,
        what=f"the hashes of the segments of its chunks {what}: its rows are right, and can be "
        "checked only by reading whole files",
        fix=f"blockstore repair {url} --block {meta.ulid}",
    )
