"""Files in cells over HTTP: upload one, and download the one that a cell names.

Rules:
- An upload is streamed into the table's folder, and answers the handle; it changes no row. A file
  that no row names is removed some days later, so an upload may be repeated freely.
- A download is never shown in a page of this origin: it is an attachment, its type is not guessed,
  and a policy forbids it everything.
- Its ETag is the file's SHA-256. The last piece is sent only after all bytes were compared with it:
  a response about a damaged file breaks off. A part of a file cannot be compared: a client
  that joins parts compares the whole with the ETag.
- A HEAD looks at the store whether the bytes are there, and fails where their download would.
- One range of bytes is sent as such. Of a Range with several, or in another unit, the whole file is
  the response, as of one whose If-Range is not the ETag. If-Match with another ETag is refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Annotated
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from blockstore.cli.row_names import row_named
from blockstore.errors import Invalid
from blockstore.files.reading import FileReader
from blockstore.files.upload import FileUpload
from blockstore.format.file_handle import MAX_NAME, FileHandle, check_content_type
from blockstore.names import file_object_name
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.queries import Stopper
from blockstore.reader.doors.receiving import receiving
from blockstore.reader.http.callers import Here, Known, Reading
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.row_routes import Labels, RowName, labels_of
from blockstore.reader.http.shapes import FileShown
from blockstore.reader.http.streaming import Patience, Streamed, first_piece, in_thread
from blockstore.reader.http.submitting import check_plain
from blockstore.reader.http.table_routes import MinVersion, Name, Version
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.rows.file_cells import check_has_files, open_cell
from blockstore.table import Table

router = APIRouter(responses=ERRORS, tags=["files"])

_PIECE = 4 << 20
_UNKNOWN = "application/octet-stream"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, no-cache",
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_FILE: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The bytes of the file",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    },
    206: {"description": "The range of bytes that was asked for, as Content-Range says"},
    304: {"description": "The client has this file: its ETag is the SHA-256"},
    412: {"description": "The file is another than If-Match names"},
    416: {"description": "The range begins after the end of the file"},
}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)
_CELL = "/v1/tables/{table:path}/rows/{row:text}/files/{column}"


@router.post("/v1/tables/{table:path}/files", openapi_extra=_BODY)
async def upload(
    request: Request,
    gateway: Here,
    caller: Known,
    table: Name,
    name: Annotated[str, Query(max_length=MAX_NAME, description="The file's own name")],
) -> FileShown:
    """Upload a file into a table, and return the handle to put into a cell. The body is the file,
    and the Content-Type its type; without one the name says it."""
    check_scope(caller, Scope.WRITE)
    check_plain(request)
    kind = request.headers.get("content-type")
    with receiving(gateway):
        begun = await in_thread(lambda: _begun(gateway, caller, table, name, kind))
        return FileShown(**await _received(begun, request.stream()))


async def _file_of(
    gateway: Here,
    caller: Reading,
    table: Name,
    row: RowName,
    column: str,
    version: Version = None,
    min_version: MinVersion = None,
    label: Labels = (),
) -> FileReader:
    def opened() -> FileReader:
        view = gateway.tables.at_least(table, min_version, caller.tables)
        return open_cell(view, row_named(row, view.definition), column, version, labels_of(label))

    return await in_thread(opened)


CellFile = Annotated[FileReader, Depends(_file_of)]
"""The file that a cell names, now or in a version of the row."""


@router.head(_CELL, response_class=Response, responses=_FILE)
def look(request: Request, file: CellFile) -> Response:
    """What a download of the file would say: its size, its type and its SHA-256."""
    headers = _headers(file.handle)
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    file.look()
    headers["Content-Length"] = str(file.handle["bytes"])
    return Response(headers=headers, media_type=_type_of(file.handle))


@router.get(_CELL, response_class=Response, responses=_FILE)
async def download(request: Request, gateway: Here, file: CellFile) -> Response:
    """The file that a cell names, now or in a version of the row; or one range of its bytes."""
    handle = file.handle
    headers = _headers(handle)
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    pieces, held, size, status = file.pieces(), Stopper(), handle["bytes"], 200
    part = _range_of(request, headers["ETag"], size)
    if part is not None:
        begin, size, status = part.start, len(part), 206
        pieces = file.part(begin, size)
        headers["Content-Range"] = f"bytes {begin}-{begin + size - 1}/{handle['bytes']}"
    first = await first_piece(request.receive, pieces, held)
    headers["Content-Length"] = str(size)
    http = gateway.settings.http
    return Streamed(
        first,
        pieces,
        held,
        Patience(http.stall_s, max(http.answer_s, 3600.0)),
        media_type=_type_of(handle),
        headers=headers,
        status=status,
    )


def _headers(handle: FileHandle) -> dict[str, str]:
    return {
        **_HEADERS,
        "Accept-Ranges": "bytes",
        "ETag": f'"{handle["sha256"]}"',
        "Content-Disposition": _attachment(handle["name"]),
    }


def _has(request: Request, headers: Mapping[str, str]) -> bool:
    """Whether the client has the file. Raises Problem 412 if it wants no other than one that this
    is not."""
    etag = headers["ETag"]
    wanted = _listed(request, "if-match")
    if wanted and etag not in wanted and "*" not in wanted:
        raise Problem(
            412,
            f"the file has the ETag {etag}, which If-Match does not name: it was changed, so fetch "
            "it from its begin",
            error="precondition_failed",
        )
    held = _listed(request, "if-none-match")
    return "*" in held or etag in (one.removeprefix("W/") for one in held)


def _listed(request: Request, name: str) -> list[str]:
    """The ETags of a header."""
    values = ",".join(request.headers.getlist(name)).split(",")
    return [one.strip() for one in values if one.strip()]


def _range_of(request: Request, etag: str, size: int) -> range | None:
    """The bytes that are asked for; None for all. Raises Problem 416 for a range that begins after
    the end."""
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if found is None or request.headers.get("if-range", etag) != etag:
        return None
    first, last = found.groups()
    if not (first or last) or (first and last and int(first) > int(last)):
        return None
    if first:
        part = range(int(first), min(int(last) + 1, size) if last else size)
    else:
        part = range(max(0, size - int(last)), size)
    if not part:
        raise Problem(
            416,
            f"the range {found.group()} begins after the end of the file, which has {size:,} "
            "bytes: ask for bytes of it",
            error="range_not_satisfiable",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return part


def _begun(gateway: Gateway, caller: Caller, table: str, name: str, kind: str | None) -> FileUpload:
    found: Table = gateway.tables.table(gateway.tables.find(table, caller.tables), caller.tables)
    if not found.indexed:
        raise Problem(409, f"table {table} has no index, which a table with files needs")
    found.poll()
    check_has_files(found.definition, found.name)
    return FileUpload(found.bucket, gateway.world, name=name, content_type=kind)


async def _received(begun: FileUpload, parts: AsyncIterator[bytes]) -> FileHandle:
    """Take the body, in bounded memory; one that breaks off leaves nothing."""
    held = bytearray()
    try:
        async for part in parts:
            held += part
            if len(held) >= _PIECE:
                await to_thread.run_sync(begun.write, bytes(held))
                held.clear()
        await to_thread.run_sync(begun.write, bytes(held))
        return await to_thread.run_sync(begun.finish)
    except BaseException:
        begun.abort()
        raise


def _type_of(handle: FileHandle) -> str:
    try:
        check_content_type(handle["content_type"])
    except Invalid:
        return _UNKNOWN
    return handle["content_type"]


def _attachment(name: str) -> str:
    plain = file_object_name(name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
