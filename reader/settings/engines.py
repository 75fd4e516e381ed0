"""What engines get to reach the files of a lake: tables ``[engines."lake"]`` of ``reader.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.reader.iceberg.storage import Storage
from blockstore.service import kinds
from blockstore.service.config import Key, Named

ENGINES = Named(
    name="engines",
    sentence="What the Iceberg catalog gives to engines, by the last part of a lake's URL, so that "
    "they need no keys of the store of their own. Only tokens that may know all tables get it.",
    example="lake",
    keys=(
        Key(
            name="read",
            default="",
            read=kinds.path,
            sentence='A file with Iceberg\'s properties, such as {"s3.access-key-id": "…"}, as '
            "JSON: the keys of a user of the store that only reads. It is read again with each "
            "table.",
        ),
        Key(
            name="write",
            default="",
            read=kinds.path,
            sentence="The same for tokens with the scope write; empty if they get those for "
            "reading.",
        ),
    ),
)


def storage_of(fields: Mapping[str, object]) -> Storage:
    """The files that a lake's engines get."""
    read: Any = fields.get("read")
    write: Any = fields.get("write")
    return Storage(read=read, write=write)
