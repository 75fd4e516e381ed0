"""The hashes of a block's segments: a part of the independent reader (independent_reader.py)."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate

from independent_index import Folder, Json, check, sha256

SEGMENT = 65_536


def segments(folder: Folder, meta: Json, listed: list[Json]) -> dict[str, list[bytes]]:
    """The hashes of the segments of each chunk; none where a block has none or has lost them."""
    named = meta["blockstore"].get("segments") or {"ulid": ""}
    key = f"{meta['ulid']}/segments-{named.get('sha256', '')[:16]}"
    if named["ulid"] != meta["ulid"] or key not in folder.objects:
        return {}
    data = folder.get(key)
    if (len(data), sha256(data)) != (named["bytes"], named["sha256"]):
        return {}
    line, _, rest = data.partition(b"\n")
    head = json.loads(line)
    check((head["version"], head["segment_bytes"]) == (1, SEGMENT), key)
    files = [{"path": one["path"], "bytes": one["bytes"]} for one in listed]
    check(head["files"] == files, f"the files of {key}")
    hashes = [rest[at : at + 32] for at in range(0, len(rest), 32)]
    counts = [-(-one["bytes"] // SEGMENT) for one in files]
    check(len(rest) == 32 * sum(counts), f"the size of {key}")
    ends = list(accumulate(counts))
    return {
        file["path"]: hashes[end - count : end]
        for file, count, end in zip(files, counts, ends, strict=True)
    }


def check_ranges(hashes: list[bytes] | None, key: str, data: bytes) -> None:
    """Each segment for itself, as a reader of ranges would compare it."""
    for number, expected in enumerate(hashes or []):
        piece = data[number * SEGMENT : (number + 1) * SEGMENT]
        check(hashlib.sha256(piece).digest() == expected, f"segment {number} of {key}")
