"""Writes the test vectors: small tables, and beside each what a reader answers.

    python -m tests.golden.make_vectors

A vector that is there is never written again: what a release once wrote must be read by all later
ones. A new vector is a function in one of the three modules, named in ``VECTORS``; nothing of it is
random or of this machine.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blockstore.bucket.api import ReadBucket
from tests.golden import vectors_damaged as damaged
from tests.golden import vectors_history as history
from tests.golden import vectors_indexed as indexed
from tests.golden import vectors_listed as listed
from tests.golden import vectors_rows as changing
from tests.golden import vectors_segments as segments
from tests.golden.oracle import Oracle

HERE = Path(__file__).parent / "vectors"

VECTORS: dict[str, Callable[[], Oracle]] = {
    "created": indexed.created,
    "appended": indexed.appended,
    "labels": indexed.labelled,
    "altered": indexed.altered,
    "replaced-rows": indexed.replaced,
    "reverted": indexed.reverted,
    "collected": history.collected,
    "tag-at-the-boundary": history.pinned,
    "watermarks": history.watermarks,
    "long-lists": indexed.long_lists,
    "history-replaced": history.history_replaced,
    "entry-edited": history.entry_edited,
    "earlier-release": history.earlier_release,
    "list-marks": listed.marks,
    "list-ages": listed.ages,
    "list-nothing-yet": listed.nothing_yet,
    "list-cover": listed.cover,
    "list-schemas": listed.devices,
    "list-renamed": listed.renamed,
    "list-beside-an-index": listed.beside,
    "list-below-the-floor": listed.below_the_floor,
    "list-index-lost": listed.index_lost,
    "list-nothing-readable": listed.nothing_readable,
    "list-long-lists": listed.old_lists,
    "checkpoint-of-everything": history.everything_in_a_checkpoint,
    "checkpoint-passed-over": damaged.checkpoint_passed_over,
    "checkpoint-whole": damaged.checkpoint_whole,
    "checkpoint-damaged": damaged.checkpoint_alone,
    "checkpoint-of-other-rows": damaged.checkpoint_of_other_rows,
    "checkpoint-repacked": damaged.checkpoint_repacked,
    "checkpoint-of-another-history": damaged.checkpoint_of_another_history,
    "entry-bit": damaged.entry_bit,
    "entry-missing": damaged.entry_missing,
    "entry-renamed": damaged.entry_renamed,
    "entry-contradicts": damaged.entry_contradicts,
    "entry-newer": damaged.entry_newer,
    "entry-requires": damaged.entry_requires,
    "entry-unknown-operation": damaged.entry_unknown_operation,
    "boundary-letters": damaged.boundary_letters,
    "boundary-digit": damaged.boundary_digit,
    "boundary-missing": damaged.boundary_missing,
    "chunk-of-other-bytes": damaged.chunk_of_other_bytes,
    "chunk-missing": damaged.chunk_missing,
    "list-of-other-sources": damaged.list_of_other_sources,
    "segments": segments.right_and_lost,
    "leaves": history.in_leaves,
    "leaf-damaged": damaged.leaf_damaged,
    "rows-with-ids": changing.with_row_ids,
    "rows-with-a-key": changing.with_a_key,
}


def expected(name: str, made: Oracle) -> dict[str, Any]:
    """What stands in a vector's expected.json."""
    return {"about": " ".join((VECTORS[name].__doc__ or "").split()), "asks": made.asks}


def write(bucket: ReadBucket, folder: Path) -> None:
    """The objects of a bucket as files."""
    for info in bucket.list():
        path = folder / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.get(info.key).data)


def main() -> None:
    """Write those that are not there."""
    platform.node = lambda: "vectors"
    for name, make in VECTORS.items():
        folder = HERE / name
        if folder.exists():
            continue
        made = make()
        write(made.bucket, folder / "table")
        told = expected(name, made)
        asks = ",\n".join(json.dumps(ask, ensure_ascii=False) for ask in told["asks"])
        (folder / "expected.json").write_text(
            f'{{"about": {json.dumps(told["about"])},\n"asks": [\n{asks}\n]}}\n'
        )


if __name__ == "__main__":
    main()
