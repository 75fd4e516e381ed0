"""Tables that are created, altered, dropped and brought back, as every door submits it.

Rules:
- Each is a job, as a change of rows is, and needs the scope ``ddl``.
- What is wrong with it is refused when it is sent, over the tables that there are then; its job
  looks again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from blockstore.bucket import Bucket
from blockstore.errors import TableDropped
from blockstore.index.presence import exists
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.queries import Asked, described
from blockstore.reader.doors.submitted import allowed_of
from blockstore.reader.errors import BadSql, Restricted, UnknownTable
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.jobs.bodies import check_name
from blockstore.reader.jobs.definitions import (
    altered,
    created,
    may_exist,
    parsed,
    query_of,
    replaces,
)
from blockstore.reader.jobs.record import Kind
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.reader.jobs.tables import What
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.query.task import Parameters
from blockstore.reader.statements.altering import Alter
from blockstore.reader.statements.calling import Call
from blockstore.reader.statements.defining import Create
from blockstore.reader.statements.dropping import Drop
from blockstore.reader.statements.texts import Kind as StatementKind
from blockstore.reader.statements.texts import Text
from blockstore.reader.tables.lake import table_name
from blockstore.reader.tables.names import folded


def check_new(caller: Caller, name: str) -> None:
    """Raise Invalid and Problem for a name that a new table of this caller cannot have, and
    Restricted for one that its policies are about."""
    check_name(name)
    if caller.sees(name) and not caller.knows(name):
        raise Restricted(name)
    if not caller.knows(name):
        raise Problem(
            403, f"the token {caller.name!r} is for some tables, and {name} is none of them"
        )


def check_room(gateway: Gateway, wanted: JobRequest, job: str, *, new: bool) -> None:
    """Raise Problem where a table cannot be created here, or, if it is to be ``new``, where there
    is one of its name; not for a job that was submitted before."""
    if (
        wanted.what not in (What.CREATE, What.CREATE_AS)
        or gateway.need_jobs().store.sketch(job).submitted
    ):
        return
    if exists(gateway.lake):
        raise Problem(409, "this gateway serves a table and no lake, which could hold others")
    assert wanted.table is not None, "a table that is created has a name"
    twins = {one for one in gateway.tables.names() if folded(one) == folded(wanted.table)}
    if (new and twins) or twins - {wanted.table}:
        raise Problem(409, f"there is already a table {wanted.table} here: choose another name")


def creating(gateway: Gateway, caller: Caller, name: str, message: str) -> JobRequest:
    """The request to create a table."""
    return _wanted(gateway, caller, What.CREATE, name, message)


def altering(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    """The request to alter the table that there is now. Raises UnknownTable and Problem."""
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, which an alter by a gateway needs")
    version, commit = identity_of(handle.bucket, gateway.world)
    wanted = _wanted(gateway, caller, What.ALTER, name, message)
    return replace(wanted, table_version=version, table_commit=commit)


def dropping(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    """The request to drop the table that there is now. Raises UnknownTable and Problem."""
    name = gateway.tables.find(table, caller.tables)
    handle = gateway.tables.table(name, caller.tables)
    if not handle.indexed:
        raise Problem(409, f"table {name} has no index, in which a drop could be undone")
    return _of_life(gateway, caller, What.DROP, name, handle.bucket, message)


def undropping(gateway: Gateway, caller: Caller, table: str, message: str) -> JobRequest:
    """The request to bring a table back. Raises UnknownTable."""
    bucket = gateway.tables.bucket_of(table, caller.tables)
    return _of_life(gateway, caller, What.UNDROP, table_name(bucket), bucket, message)


def request_of_definition(
    gateway: Gateway,
    caller: Caller,
    text: Text,
    message: str,
    parameters: Parameters,
    job: str | None = None,
) -> JobRequest:
    """The request of a statement that defines a table; without a table where it has nothing to do,
    and that of the ``job`` if it was sent before: what it would mean by now does not count. Raises
    BadSql, Invalid and Problem for one that no job carries out."""
    check_scope(caller, Scope.DDL)
    if parameters:
        raise BadSql(f"{text.kind} takes no parameters: write the values into the statement")
    if job is not None and (before := sent_before(gateway, caller, job)) is not None:
        return before
    match parsed(text):
        case Create() as create:
            check_new(caller, create.name)
            wanted = _creating(gateway, caller, create, message)
            query = query_of(text)
            if query is None:
                created(gateway.engine, text)
            else:
                if create.or_replace and wanted.table in gateway.engine.reads(
                    query, allowed=caller.tables
                ):
                    raise BadSql(
                        f"the query reads table {wanted.table}, which it is to replace, and a "
                        "gateway that ends meanwhile would lose its rows: create another table of "
                        "the query, or use INSERT, UPDATE and DELETE"
                    )
                # Its job goes by no policy.
                gateway.engine.tables(query, allowed=caller.tables)
                found = described(gateway, caller, Asked(sql=query))
                created(gateway.engine, text, found.schema)
                wanted = replace(wanted, what=What.CREATE_AS)
            return wanted
        case Call() as call:
            return undropping(gateway, caller, call.name, message)
        case Alter() as alter:
            try:
                wanted = altering(gateway, caller, alter.name, message)
            except (UnknownTable, TableDropped):
                if not alter.if_exists:
                    raise
                return _nothing(gateway, caller, message, What.ALTER)
            assert wanted.table is not None, "an alteration names its table"
            # Another gateway may have altered it just now.
            gateway.tables.poll_now(wanted.table)
            handle = gateway.tables.table(wanted.table, caller.tables)
            altered(gateway.engine, text, handle.definition)
            return wanted
        case Drop() as drop:
            try:
                return dropping(gateway, caller, drop.name, message)
            except (UnknownTable, TableDropped):
                if not drop.if_exists:
                    raise
            return _nothing(gateway, caller, message, What.DROP)


def makes_new(step: object) -> bool:
    """Whether a statement needs that there is no table of its name."""
    if not isinstance(step, Text) or step.kind is not StatementKind.CREATE:
        return False
    return not (may_exist(step) or replaces(step))


def _creating(gateway: Gateway, caller: Caller, create: Create, message: str) -> JobRequest:
    """The request to create a table, by the name of one that is there, if it may be; with OR
    REPLACE in its place."""
    if create.if_not_exists or create.or_replace:
        with suppress(UnknownTable, TableDropped):
            name = gateway.tables.find(create.name, caller.tables)
            if create.or_replace:
                there = dropping(gateway, caller, name, message)
                return replace(there, what=What.CREATE)
            return creating(gateway, caller, name, message)
    return creating(gateway, caller, create.name, message)


def sent_before(gateway: Gateway, caller: Caller, job: str) -> JobRequest | None:
    """The request of a job that was sent before, if the caller may know it; else None."""
    store = gateway.need_jobs().store
    if not store.sketch(job).submitted:
        return None
    found = store.request(job)
    return found if found.table is None or caller.knows(found.table) else None


def _nothing(gateway: Gateway, caller: Caller, message: str, what: What) -> JobRequest:
    """The request of a statement about a table that need not exist, and does not."""
    return replace(creating(gateway, caller, "", message), what=what, table=None)


def _of_life(
    gateway: Gateway, caller: Caller, what: What, name: str, bucket: Bucket, message: str
) -> JobRequest:
    version, commit = identity_of(bucket, gateway.world, dropped=True)
    wanted = _wanted(gateway, caller, what, name, message)
    return replace(wanted, table_version=version, table_commit=commit)


def _wanted(gateway: Gateway, caller: Caller, what: What, name: str, message: str) -> JobRequest:
    return JobRequest(
        kind=Kind.TABLE,
        owner=caller.fingerprint,
        created_ms=gateway.world.clock.now_ms(),
        form="json",
        allowed=allowed_of(caller),
        table=name,
        message=message,
        what=what,
    )
