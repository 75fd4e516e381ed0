"""COPY: rows of a table or of a query to the client, and rows of the client to a table.

Rules:
- What a client sends becomes a CSV file in the bucket, and one upload, as over HTTP: each line is
  checked, and all rows become visible in one version, or none.
- It is not a part of a transaction that is open: COPY FROM is refused there.
- What comes is read only as fast as it is stored, and within the limits of uploads: so many at
  once at all doors, each so large at most, and none that sends nothing for long.
- The token is looked at again with each message: what comes after its end is not written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from blockstore.errors import Invalid
from blockstore.format.column import rules_of
from blockstore.format.identity import Key
from blockstore.names import job_input_key
from blockstore.reader.doors.queries import Stopper
from blockstore.reader.doors.receiving import receiving
from blockstore.reader.doors.seen import seen_of
from blockstore.reader.doors.submitted import Submitted, allowed_of, ended_meanwhile
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.receiving import received
from blockstore.reader.http.streaming import in_thread
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.upload import INSERT
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.postgres import states, wire
from blockstore.reader.postgres.asks import Asks
from blockstore.reader.postgres.copy_lines import BinaryLines, CsvLines, Lines, TextLines, csv_line
from blockstore.reader.postgres.dml import counted_by
from blockstore.reader.postgres.peer import Peer
from blockstore.reader.postgres.portals import CopyIn, CopyOut, Portal
from blockstore.reader.postgres.prepared import Prepared
from blockstore.reader.postgres.rows import (
    BINARY_END,
    BINARY_HEAD,
    CopyForm,
    as_binary_copy,
    as_csv_copy,
    as_text_copy,
    csv_head,
    text_head,
)
from blockstore.reader.postgres.states import Refused
from blockstore.reader.postgres.texts import split
from blockstore.reader.postgres.types import type_of
from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.tokens import Cursor, Piece

_FORMS = ("text", "csv", "binary")
_NO_DELIMITER = "\\.\r\nabcdefghijklmnopqrstuvwxyz0123456789"
"""Signs that mean something else in the text form."""


def copy_of(runs: Asks, portal: Portal) -> None:
    """Start a COPY. Raises Refused for one that is not possible."""
    part = portal.prepared.part
    cursor = Cursor(part.sql)
    cursor.need("COPY")
    query, table = "", ""
    columns: tuple[str, ...] = ()
    if cursor.word() == "(":
        inside = cursor.one().inside()
        query = "" if inside is None else inside.text
    else:
        table = cursor.name("the table")
        while cursor.take("."):
            if table.lower() not in ("public", runs.database):
                raise Refused("3F000", f"there is no schema {table!r}: tables are in public")
            table = cursor.name("the table")
        if cursor.word() == "(":
            inside = cursor.one().inside()
            columns = tuple(piece.tokens[0].text for piece in inside.split()) if inside else ()
    out = cursor.take("TO")
    if not out:
        cursor.need("FROM")
    if not cursor.take("STDOUT" if out else "STDIN"):
        raise Refused(
            states.NO_PRIVILEGE,
            "COPY reads and writes no files of the gateway: use COPY … TO STDOUT, or FROM STDIN",
        )
    form = _form(_options(cursor))
    if out:
        sql = query or _select(runs, table, columns)
        _out(runs, portal, sql, form)
    elif query:
        raise Refused(states.SYNTAX, "COPY FROM needs a table, and found a query")
    else:
        _in(runs, portal, table, columns, form)


def _select(runs: Asks, table: str, columns: Sequence[str]) -> str:
    name = seen_of(runs.gateway, runs.caller, table).name
    return f"SELECT {', '.join(map(quoted, columns)) or '*'} FROM {quoted(name)}"


def _out(runs: Asks, portal: Portal, sql: str, form: CopyForm) -> None:
    (part,) = split(sql)
    runs.query(portal, Prepared(part=part, types=portal.prepared.types), portal.values)
    names = portal.schema.names if portal.schema is not None else []
    iso = runs.variables.iso_intervals
    begins = wire.copies(out=True, binary=form.form == "binary", columns=len(names))
    if form.form == "binary":
        portal.copies(
            CopyOut(
                begins=begins,
                form=as_binary_copy(),
                form_name="binary",
                head=BINARY_HEAD,
                end=BINARY_END,
            )
        )
    elif form.form == "csv":
        line = as_csv_copy(form, iso=iso)
        made = CopyOut(begins=begins, form=line)
        if form.header:
            made.head = csv_head(names, form)
        portal.copies(made)
    else:
        made = CopyOut(begins=begins, form=as_text_copy(form.delimiter, form.null, iso=iso))
        made.head = text_head(names, form.delimiter) if form.header else b""
        portal.copies(made)


def _in(runs: Asks, portal: Portal, table: str, columns: tuple[str, ...], form: CopyForm) -> None:
    runs.check_writes()
    if runs.in_transaction:
        raise Refused(
            states.IN_TRANSACTION,
            "COPY FROM is a version of its own and not a part of a transaction: end the "
            "transaction first, or connect with autocommit",
        )
    name = runs.gateway.tables.find(table, runs.caller.tables)
    # Lines without names have the columns of now, which another gateway may have altered.
    runs.gateway.tables.poll_now(name)
    schema = runs.gateway.tables.table(name, runs.caller.tables).definition.schema
    named = columns or tuple(schema.names)
    unknown = next((one for one in named if one not in schema.names), None)
    if unknown is not None:
        raise Refused("42703", f"table {name} has no column {unknown!r}")
    binary = form.form == "binary"
    begins = wire.copies(out=False, binary=binary, columns=len(named))
    portal.started = True
    portal.copy = CopyIn(table=name, columns=named, begins=begins, form=form)


async def copied_in(peer: Peer, runs: Asks, copy: CopyIn) -> int:
    """Receive the rows of a COPY and write them; return how many. Raises Refused, Problem and
    Canceled for lines that are wrong, for a limit, without the token, for a client that gives up or
    is silent, and if it is cancelled: then nothing was written."""
    gateway = runs.gateway
    jobs, stopper = gateway.need_jobs(), runs.new_stopper()
    stopper.began(_looks(peer))
    job = gateway.world.ids.ulid()
    lines = _lines(runs, copy)
    with receiving(gateway):
        await peer.send(copy.begins)
        wanted = await in_thread(lambda: _request(runs, copy))
        key = job_input_key(job, gateway.world.ids.ulid())
        try:
            file = await received(
                jobs.store.bucket, key, _file(_Given(peer, runs, stopper), lines, gateway)
            )
        finally:
            # After an error the client sends on until it learns of it; what it sends is ignored.
            lines.clear()
        complete = replace(wanted, input_key=key, input_bytes=file.bytes, input_sha256=file.sha256)
        made = await in_thread(lambda: jobs.store.submit(job, complete))
    wait_s = gateway.settings.jobs.time_limit_s
    try:
        sent = Submitted(job=job, wanted=complete, made=made)
        done = await ended_meanwhile(gateway, sent, wait_s, stopper)
    except Problem as error:
        states.check_cancelled(error, stopped=stopper.stopped)
        raise Refused(states.COPY_FAILED, str(error.detail)) from error
    if not done.state.ended:
        raise Refused(states.CANCELED, f"the upload has not ended in {wait_s:g} s: see job {job}")
    return counted_by(done) or lines.rows


def _looks(peer: Peer) -> Callable[[], None]:
    """What lets a COPY that waits for its client look whether it was cancelled, from any thread."""
    loop = asyncio.get_running_loop()

    def look() -> None:
        with suppress(RuntimeError):  # the loop has ended, and the COPY with it
            loop.call_soon_threadsafe(peer.look)

    return look


def _request(runs: Asks, copy: CopyIn) -> JobRequest:
    gateway, caller = runs.gateway, runs.caller
    handle = gateway.tables.table(copy.table, caller.tables)
    if not handle.indexed:
        raise Invalid(f"table {copy.table} has no index, which a COPY needs to happen once")
    version, commit = identity_of(handle.bucket, gateway.world)
    return JobRequest(
        kind=Kind.UPLOAD,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="csv",
        allowed=allowed_of(caller),
        table=copy.table,
        what=INSERT if isinstance(handle.definition.identity, Key) else "",
        table_version=version,
        table_commit=commit,
    )


def _lines(runs: Asks, copy: CopyIn) -> Lines:
    schema = runs.gateway.tables.table(copy.table, runs.caller.tables).definition.schema
    types = [type_of(schema.field(name).type) for name in copy.columns]
    made = {"csv": CsvLines, "binary": BinaryLines}.get(copy.form.form, TextLines)
    absent = tuple(
        field.name
        for field in schema
        if field.name not in copy.columns and rules_of(field).default is None
    )
    return made(copy.form, types, (*copy.columns, *absent))


async def _file(given: _Given, lines: Lines, gateway: Gateway) -> AsyncIterator[bytes]:
    """The CSV file of what the client sends. Raises Problem 413 beyond the limit of uploads."""
    limit, size = gateway.settings.http.max_upload_bytes, 0
    async for made in _made(given, lines):
        size += len(made)
        if size > limit:
            raise Problem(
                413, f"the rows are larger than the limit of {limit:,} bytes: copy less at a time"
            )
        yield made


async def _made(given: _Given, lines: Lines) -> AsyncIterator[bytes]:
    yield csv_line(lines.header)
    async for data in given:
        made = await in_thread(lambda data=data: lines.feed(data))  # type: ignore[misc]
        if made:
            yield made
    rest = lines.end()
    if rest:
        yield rest


class _Given:
    """The data of a COPY, as the client sends it."""

    def __init__(self, peer: Peer, runs: Asks, stopper: Stopper) -> None:
        self._peer = peer
        self._runs = runs
        self._stopper = stopper

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._next()
            match message:
                case wire.CopyData():
                    yield message.data
                case wire.CopyDone():
                    return
                case wire.CopyFail():
                    raise Refused(
                        states.CANCELED,
                        f"the client gave the COPY up: {message.why[:200] or 'no reason'}",
                    )
                case wire.Sync() | wire.Flush():
                    pass  # of a client that uses the extended protocol
                case _:
                    raise wire.Malformed("a message came that does not belong into a COPY")

    async def _next(self) -> wire.Message:
        idle_s = self._runs.gateway.settings.http.stall_s
        try:
            message = await self._peer.next(idle_s=idle_s, check=self._stopper.check)
        except TimeoutError:
            raise Refused(
                states.CANCELED,
                f"nothing of the COPY came for {idle_s:g} s: send it without a pause",
            ) from None
        self._runs.gateway.gate.check(self._runs.caller)
        return message


def _options(cursor: Cursor) -> list[tuple[str, str]]:
    """The options, in the form of today (``WITH (FORMAT csv)``) or in the old one."""
    cursor.take("WITH")
    if cursor.word() == "(":
        inside = cursor.one().inside()
        return [] if inside is None else [_option(piece) for piece in inside.split()]
    words = cursor.rest().tokens
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        name = words[at].word
        at += 1
        if name in ("CSV", "BINARY", "TEXT"):
            found.append(("FORMAT", name.lower()))
        elif name == "HEADER":
            found.append((name, "true"))
        elif name in ("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING"):
            at += at < len(words) and words[at].word == "AS"
            if at == len(words):
                raise Refused(states.SYNTAX, f"{name} of COPY needs a value")
            found.append((name, words[at].text))
            at += 1
        else:
            raise Refused(states.SYNTAX, f"COPY does not have the option {name[:40] or '?'}")
    return found


def _option(piece: Piece) -> tuple[str, str]:
    if not piece.tokens:
        raise Refused(states.SYNTAX, "an option of COPY is empty")
    name, values = piece.tokens[0].word, piece.tokens[1:]
    if values:
        return name, "".join(one.text for one in values)  # the text may be empty, as of NULL ''
    if name != "HEADER":
        raise Refused(states.SYNTAX, f"{name[:40]} of COPY needs a value")
    return name, "true"


def _form(options: Iterable[tuple[str, str]]) -> CopyForm:
    given = dict(options)
    form = given.pop("FORMAT", "text").lower()
    if form not in _FORMS:
        raise Refused(states.FEATURE, f"COPY has the format {form[:40]!r}, expected text or csv")
    plain = form == "csv"
    header = given.pop("HEADER", "false").lower() not in ("false", "off", "0")
    encoding = given.pop("ENCODING", "utf8")
    if encoding.lower().replace("-", "") != "utf8":
        raise Refused(states.FEATURE, f"COPY is in UTF-8 here, and ENCODING is {encoding[:40]!r}")
    quote = given.pop("QUOTE", '"')
    found = CopyForm(
        form=form,
        delimiter=given.pop("DELIMITER", "," if plain else "\t"),
        null=given.pop("NULL", "" if plain else "\\N"),
        quote=quote,
        escape=given.pop("ESCAPE", quote),
        header=header,
    )
    if given:
        raise Refused(
            states.FEATURE, f"COPY does not have the option {next(iter(given))[:40]} here"
        )
    for name, sign, odd in (
        ("DELIMITER", found.delimiter, "\r\n" if plain else _NO_DELIMITER),
        ("QUOTE", found.quote, "\r\n\\"),
        ("ESCAPE", found.escape, "\r\n"),
    ):
        if len(sign) != 1 or sign in odd or ord(sign) > 127:
            raise Refused(states.SYNTAX, f"{name} of COPY is {sign[:10]!r}, expected one sign")
    clashes = {found.delimiter, *"\r\n", *((found.quote,) if plain else ())}
    same = plain and found.quote == found.delimiter
    if same or (form != "binary" and clashes & set(found.null)):
        raise Refused(
            states.SYNTAX,
            f"NULL of COPY is {found.null[:10]!r}, QUOTE {found.quote!r} and DELIMITER "
            f"{found.delimiter!r}: neither may contain another one",
        )
    return found
