"""Many rows at once into one table, as every door takes them: all of them are one version, or none.

Rules:
- The rows are received completely before anything else happens: what a client does not finish
  leaves nothing.
- They become a job: with a key they are written once, however often they are sent, and a gateway
  that dies leaves them complete or absent.
- A table that is created for them is created empty, and dropped if they do not get into it.
- The limits are those of uploads: so many are received at once, and each is so large at most.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import orjson
import pyarrow as pa

from blockstore.bucket.api import ObjectWriter
from blockstore.cli.schema_text import type_name
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.index.presence import exists
from blockstore.names import job_input_key
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.definitions import check_new, creating, dropping
from blockstore.reader.doors.receiving import receiving
from blockstore.reader.doors.submitted import allowed_of, check_same, ended, job_id, submit
from blockstore.reader.errors import UnknownTable
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.shapes import ColumnBody, TableBody
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.arrow_file import ARROW, Mode
from blockstore.reader.jobs.bodies import definition_of
from blockstore.reader.jobs.plain_sizes import pieces
from blockstore.reader.jobs.record import Kind, State
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.store import Job
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.tables.names import folded

_logger = logging.getLogger(__name__)

_WAIT_S = 60.0
"""For the creation of a table, or its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where rows go, and how."""

    table: str
    mode: Mode
    creates: bool = False
    """Whether a table that is missing is created, with the columns of the rows."""
    fails_if_exists: bool = False
    message: str = ""
    key: str | None = None
    """The same key of the same token is the same load, which happens once."""


def load(
    gateway: Gateway,
    caller: Caller,
    wanted: Load,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    wait_s: float,
    gone: Callable[[], bool] = lambda: False,
    receives: Callable[[Callable[[], None]], None] = lambda stop: None,
) -> Job:
    """Write rows to a table; return the job, ended unless ``wait_s`` have passed. If the client is
    ``gone`` meanwhile, the job is cancelled. ``receives`` is given a function that frees the place
    of a client that sends nothing.

    Raises Invalid for rows that do not fit, UnknownTable and Problem; then nothing was changed.
    """
    check_scope(caller, Scope.WRITE)
    jobs = gateway.need_jobs()
    job = job_id(gateway, caller, wanted.key)
    sent_before = jobs.store.sketch(job).submitted
    found = None if sent_before else _found(gateway, caller, wanted)
    if not sent_before:
        _check_new(gateway, caller, wanted, schema, there=found is not None)
    key = job_input_key(job, gateway.world.ids.ulid())
    with receiving(gateway) as place:
        receives(place.give_back)
        size, digest = _stored(gateway, key, schema, batches)
    input_of = partial(replace, input_key=key, input_bytes=size, input_sha256=digest)
    if sent_before:
        jobs.store.bucket.delete([key])
        request = input_of(_again(jobs.store.request(job), wanted))
        check_same(jobs, job, request)
        return ended(gateway, job, request, False, wait_s, gone)
    created = False
    try:
        if found is None:
            _create(gateway, caller, wanted, schema)
            created = True
        request = input_of(_request(gateway, caller, wanted))
        made = jobs.store.submit(job, request)
        if not made:
            jobs.store.bucket.delete([key])
            check_same(jobs, job, request)
        return ended(gateway, job, request, made, wait_s, gone)
    except (Problem, Conflict, Invalid, NotFound):
        # Not where it is unknown how the job ends: it may still write the rows.
        if created:
            _drop(gateway, caller, wanted)
        raise


def _again(before: JobRequest, wanted: Load) -> JobRequest:
    """The request of a job that was submitted before, as it would be if this load was the same."""
    same = before.table is not None and folded(before.table) == folded(wanted.table)
    return replace(
        before,
        form=ARROW,
        table=before.table if same else wanted.table,
        message=wanted.message,
        what=wanted.mode,
    )


def _create_key(wanted: Load) -> str | None:
    """The key of the job that creates the table for a load with a key."""
    if wanted.key is None:
        return None
    return f"create {hashlib.sha256(wanted.key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _found(gateway: Gateway, caller: Caller, wanted: Load) -> str | None:
    """The table's own spelling; None for one that is to be created. Raises UnknownTable."""
    try:
        return gateway.tables.find(wanted.table, caller.tables)
    except UnknownTable:
        if not wanted.creates:
            raise
        return None


def _check_new(
    gateway: Gateway, caller: Caller, wanted: Load, schema: pa.Schema, there: bool
) -> None:
    """Refuse a table that cannot be created before its rows are received."""
    name = wanted.table
    if there:
        if wanted.creates and wanted.fails_if_exists and not _ours(gateway, caller, wanted):
            raise Problem(409, f"there is already a table {name} here: append to it or replace it")
        return
    check_new(caller, name)
    if exists(gateway.lake):
        raise Problem(409, "this gateway serves a table and no lake, which could hold others")
    definition_of(_body(wanted, schema).model_dump())


def _ours(gateway: Gateway, caller: Caller, wanted: Load) -> bool:
    """Whether the table was created for this load, by a gateway that then died."""
    key, store = _create_key(wanted), gateway.need_jobs().store
    if key is None:
        return False
    job = job_id(gateway, caller, key)
    return store.sketch(job).submitted and store.load(job).state is State.DONE


class _Sink:
    """A file for an Arrow stream: hashed, and bounded."""

    closed = False

    def __init__(self, writer: ObjectWriter, limit: int) -> None:
        self._writer = writer
        self._limit = limit
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: object) -> int:
        piece = memoryview(data).tobytes()  # type: ignore[arg-type]
        self.size += len(piece)
        if self.size > self._limit:
            raise Problem(
                413, f"the rows are larger than the limit of {self._limit:,} bytes: send less"
            )
        self.digest.update(piece)
        self._writer.write(piece)
        return len(piece)

    def flush(self) -> None:
        return None

    def writable(self) -> bool:
        return True


def _stored(
    gateway: Gateway, key: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[int, str]:
    """Store the rows in the bucket; return their size and hash."""
    writer = gateway.need_jobs().store.bucket.writer(key)
    plain = pa.schema([field.with_type(_undictionaried(field.type)) for field in schema])
    try:
        sink = _Sink(writer, gateway.settings.http.max_upload_bytes)
        with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), plain) as stream:
            for piece in (piece for batch in batches for piece in pieces(_valid(batch))):
                columns = [_decoded(column) for column in piece.columns]
                stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=plain))
        writer.close()
    except BaseException:
        writer.abort()
        raise
    return sink.size, sink.digest.hexdigest()


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch; a client has made it. Raises Invalid for one that is damaged."""
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise Invalid(f"the rows that were sent are damaged ({error})") from error
    return batch


def _undictionaried(kind: pa.DataType) -> pa.DataType:
    return _plain(kind) if pa.types.is_dictionary(kind) else kind


def _decoded(column: pa.Array) -> pa.Array:
    """A column without a dictionary: its values may have a type of which none can be taken."""
    if not pa.types.is_dictionary(column.type):
        return column
    return column.dictionary.cast(_plain(column.type.value_type)).take(column.indices)


def _request(gateway: Gateway, caller: Caller, wanted: Load) -> JobRequest:
    name = gateway.tables.find(wanted.table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(
            409,
            f"table {name} has no index, which a load needs to happen exactly once: use "
            "blockstore write",
        )
    version, commit = identity_of(handle.bucket, gateway.world)
    return JobRequest(
        kind=Kind.UPLOAD,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form=ARROW,
        allowed=allowed_of(caller),
        table=name,
        message=wanted.message,
        what=wanted.mode,
        table_version=version,
        table_commit=commit,
    )


def _body(wanted: Load, schema: pa.Schema) -> TableBody:
    columns = [
        ColumnBody(name=field.name, type=type_name(_plain(field.type)), nullable=field.nullable)
        for field in schema
    ]
    return TableBody(name=wanted.table, columns=columns)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that a column of a table has for the values of this one."""
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _create(gateway: Gateway, caller: Caller, wanted: Load, schema: pa.Schema) -> None:
    job = job_id(gateway, caller, _create_key(wanted))
    request = creating(gateway, caller, wanted.table, wanted.message)
    body = orjson.dumps(_body(wanted, schema).model_dump())
    done = ended(gateway, job, request, submit(gateway, job, request, body), _WAIT_S)
    if not done.state.ended:
        raise Problem(503, f"table {wanted.table} was not created in time: see job {job}")


def _drop(gateway: Gateway, caller: Caller, wanted: Load) -> None:
    """Drop the empty table that was created for rows that did not get into it. A table that others
    have written to since is left as it is."""
    try:
        request = dropping(gateway, caller, wanted.table, wanted.message)
        job = job_id(gateway, caller, None)
        ended(gateway, job, request, submit(gateway, job, request, b'{"empty":true}'), _WAIT_S)
    except (BlockstoreError, Problem) as error:
        _logger.warning("table %s was created and remains empty: %s", wanted.table, error)
