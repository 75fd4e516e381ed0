"""All that is known of one block, as the page shows it when someone chooses it."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from blockstore.format.block import BlockMeta

_SHOWN = 200
"""Of sources, parents and files so many are named; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDetail:
    """A block's meta, what the index says of it, and where it lies.

    ``meta`` is None where it cannot be read.
    """

    ulid: str
    url: str
    """The table's."""
    meta: BlockMeta | None
    version: int | None = None
    excepted: tuple[str, ...] = ()


def encode_detail(detail: BlockDetail) -> bytes:
    """The detail's JSON; times are milliseconds since the epoch."""
    meta = detail.meta
    value: dict[str, object] = {
        "ulid": detail.ulid,
        "url": detail.url,
        "version": detail.version,
        "excepted": list(detail.excepted[:_SHOWN]),
        "meta": None,
    }
    if meta is not None:
        value["meta"] = {
            "min_time": meta.min_time,
            "max_time": meta.max_time,
            "rows": meta.rows,
            "bytes": meta.bytes,
            "level": meta.level,
            "revision": meta.revision,
            "labels": dict(meta.labels),
            "resolution": meta.resolution,
            "visible_by": str(meta.visible_by),
            "producer": meta.producer,
            "uploaded_time": meta.uploaded_time or None,
            "job": None if meta.job is None else {"app": meta.job.app, "batch": meta.job.batch},
            "sort_by": list(meta.sort_by),
            "sources": list(meta.sources[:_SHOWN]),
            "source_count": len(meta.sources),
            "parents": [parent.ulid for parent in meta.parents[:_SHOWN]],
            "parent_count": len(meta.parents),
            "files": [
                {"path": file.path, "bytes": file.bytes, "rows": file.rows, "sha256": file.sha256}
                for file in meta.files[:_SHOWN]
            ],
            "file_count": len(meta.files),
        }
    return orjson.dumps(value)
