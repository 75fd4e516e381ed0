"""What a cell holds of a file, and the record that makes a file complete.

Rules:
- A handle is a plain dict, the value of a cell: Arrow, JSON, SQL and Spark hold it as a struct, and
  CSV as a JSON object.
- ``file.json`` is the file's record: its handle, and the name of the object that has its bytes. It
  is written last, so a file is complete or not there, and it is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypedDict

import orjson
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.column import FILE, HANDLE, rules_of
from blockstore.format.document import parse, sealed
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.format.texts import check_text
from blockstore.names import FILE_RECORD, file_key, file_object_name, is_ulid

MAX_NAME = 1_000
"""Characters of a file's own name."""

_MAX_TYPE = 255
_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+( *;[ -~]*)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class FileHandle(TypedDict):
    """The value of a cell of type ``file``."""

    id: str
    """The ULID under which the file was uploaded."""
    name: str
    """The name that its owner gave it."""
    content_type: str
    bytes: int
    sha256: str


def handle_of(value: object) -> FileHandle:
    """Return a value as a complete handle. Raises Invalid."""
    given = value if isinstance(value, Mapping) else {}
    size, digest = given.get("bytes"), given.get("sha256")
    if (
        not is_ulid(str(given.get("id")))
        or not isinstance(given.get("name"), str)
        or type(size) is not int
        or not isinstance(digest, str)
        or _DIGEST.fullmatch(digest) is None
    ):
        shown = repr(value)
        raise Invalid(
            f"a file's handle is {shown[:200]}{'…' if len(shown) > 200 else ''}, expected what "
            f"put_file returned: {', '.join(field.name for field in HANDLE)}"
        )
    return FileHandle(
        id=str(given["id"]),
        name=given["name"],
        content_type=str(given.get("content_type") or ""),
        bytes=size,
        sha256=digest,
    )


def check_name(name: str) -> None:
    """Raise Invalid for a name that no file can have."""
    check_text("the file's name", name, limit=MAX_NAME)
    if not name or _CONTROL.search(name):
        raise Invalid(f"the file's name is {name!r}, expected a text without control characters")


def check_content_type(content_type: str) -> None:
    """Raise Invalid for what is not a media type."""
    if len(content_type) > _MAX_TYPE or _TYPE.fullmatch(content_type) is None:
        raise Invalid(
            f"the content type is {content_type[:80]!r}, expected a media type such as "
            "application/pdf"
        )


def encode_record(handle: FileHandle) -> bytes:
    """Return the bytes of a file's record."""
    return sealed(
        orjson.dumps(
            {"version": FORMAT_VERSION, **handle, "object": file_object_name(handle["name"])}
        )
    )


def decode_record(data: bytes, *, file: str) -> tuple[FileHandle, str]:
    """Return the handle of a record, and the key of the object with its bytes. Raises Corrupt or
    NewerFormat, naming the record."""
    document = parse(data, file_key(file, FILE_RECORD))
    refuse_newer(document.integer("version", low=1), document.subject)
    if document.ulid("id") != file:
        document.fail("id", f"{file}, the name of its folder")
    handle = FileHandle(
        id=file,
        name=document.text("name", limit=MAX_NAME),
        content_type=document.text("content_type", limit=_MAX_TYPE),
        bytes=document.integer("bytes"),
        sha256=document.text("sha256", limit=64),
    )
    stored = document.text("object", limit=MAX_NAME)
    if "/" in stored or stored in ("", ".", "..", FILE_RECORD):
        document.fail("object", "the name of an object in the same folder")
    return handle, file_key(file, stored)


def file_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns whose cells name files."""
    return tuple(
        field.name
        for field in schema
        if pa.types.is_struct(field.type) and rules_of(field).type == FILE
    )
