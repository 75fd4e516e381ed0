"""What the statements of one session do: it decides for each what is run, and in which transaction.

Rules:
- A query, a change and an upload run by the calls that every door uses (``reader/doors``).
- Outside of a transaction each statement reads one instant, and each change is one version.
- A transaction reads a table in the snapshot in which a statement first named it, and with what it
  has changed itself; it is one version of one table, or nothing. After a statement that failed it
  can only be rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from blockstore.reader.audit import running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.changes import Change, rows_changed, submitted
from blockstore.reader.doors.queries import Asked, Stopper, begun, described, parameters_of, placed
from blockstore.reader.doors.submitted import ended_meanwhile
from blockstore.reader.doors.tables_of import OfGateway
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Scope
from blockstore.reader.jobs.store import Job
from blockstore.reader.jobs.writing import BUFFER_BYTES
from blockstore.reader.postgres import states, variables
from blockstore.reader.postgres.backends import Backend, Backends, shown
from blockstore.reader.postgres.bounds import chains, warning
from blockstore.reader.postgres.constants import meant
from blockstore.reader.postgres.copying import copy_of
from blockstore.reader.postgres.cursors import cursor_of, declared
from blockstore.reader.postgres.dml import counted, counted_by, dml_types, returned_by, tag_of
from blockstore.reader.postgres.portals import CopyIn, CopyOut, Portal, Waits
from blockstore.reader.postgres.prepared import Prepared, Spelled
from blockstore.reader.postgres.sampling import samples, types_of
from blockstore.reader.postgres.spelling import Scene, catalog_rows, spelled
from blockstore.reader.postgres.states import Refused
from blockstore.reader.postgres.texts import Kind, Part
from blockstore.reader.postgres.types import columns_of
from blockstore.reader.postgres.variables import Variables
from blockstore.reader.query.admission import Budget
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session as Statements
from blockstore.reader.statements.texts import split as split_statements
from blockstore.reader.statements.transaction import Transaction

__all__ = ["CopyIn", "CopyOut", "Runs"]


class Runs:
    """Runs the statements of one session. Its calls may block, but for ``cancel`` and ``wait``."""

    def __init__(self, gateway: Gateway, own: Backend, backends: Backends) -> None:
        self.gateway = gateway
        self.own = own
        self.caller = own.caller
        self.database = own.database
        self.variables = Variables(own.user)
        self._backends = backends
        self._stopper = Stopper()
        self._transaction: Transaction | None = None
        self._reads_only = False
        self._writes = 0
        self._savepoints: dict[str, int] = {}
        self._changed: list[tuple[str, str]] = []
        self._failed = False

    @property
    def state(self) -> str:
        """``I`` outside of a transaction, ``T`` in one, ``E`` in one that failed."""
        if self._transaction is None:
            return "I"
        return "E" if self._failed else "T"

    def cancel(self) -> None:
        """Stop what runs, from any thread."""
        self._stopper.cancel()

    def failed(self) -> None:
        """A statement has failed."""
        self._failed = self._transaction is not None

    def changed(self) -> list[tuple[str, str]]:
        """The settings that have changed since the last call and that a client is sent."""
        found, self._changed = self._changed, []
        return found

    def close(self) -> None:
        """The client has left: nothing of an open transaction is committed."""
        self._transaction = None

    # Prepared statements

    def check(self, prepared: Prepared) -> None:
        """Raise what is wrong with a statement, as far as it shows without values."""
        if prepared.part.kind is Kind.QUERY and self.state != "E":
            check_scope(self.caller, Scope.READ)
            query = self._spelled(prepared)
            if not query.catalogs:
                self._tables_of(query.sql)

    def types(self, prepared: Prepared) -> tuple[int, ...]:
        """The types of all parameters of a statement."""
        if prepared.resolved is None:
            if prepared.part.kind is Kind.QUERY:
                sql = self._spelled(prepared).sql
                found = types_of(self.gateway, self.caller, sql, prepared.types)
            elif prepared.part.kind is Kind.CHANGE:
                found = dml_types(self.gateway, self.caller, prepared.part, prepared.types)
            elif prepared.part.kind is Kind.DECLARE:
                found = self.types(Prepared(part=declared(prepared.part), types=prepared.types))
            else:
                found = tuple(prepared.types)
            prepared.resolved = found
        return prepared.resolved

    def describe(self, prepared: Prepared) -> None:
        """Find out which columns a statement returns, before it has values."""
        if prepared.described or not prepared.returns_rows:
            return
        if prepared.part.kind is Kind.SHOW:
            prepared.columns = columns_of(variables.table_of(self.variables, prepared.part).schema)
        elif prepared.returning:
            sql = returned_by(prepared.part.sql)
            found = described(self.gateway, self.caller, Asked(sql=sql), self.new_stopper())
            prepared.columns = columns_of(found.schema)
        elif prepared.part.kind is Kind.QUERY:
            query = self._spelled(prepared)
            asked = Asked(
                sql=query.sql,
                parameters=self._used(query.sql, samples(self.types(prepared))),
                given=catalog_rows(query, self.scene()),
            )
            found = described(self.gateway, self.caller, asked, self.new_stopper())
            schema = shown(found.schema, query.endings)
            prepared.columns = columns_of(schema, oids=bool(query.catalogs))
        prepared.described = prepared.columns is not None

    # Statements

    def begin(
        self,
        portal: Portal,
        prepared: MutableMapping[str, Prepared],
        portals: MutableMapping[str, Portal],
    ) -> None:
        """Start a statement; ``wait`` is to follow. Raises what is wrong with it."""
        part = portal.prepared.part
        words = part.words
        back = part.kind is Kind.SAVEPOINT and words[0] == "ROLLBACK"
        ends = back or part.kind in (Kind.ROLLBACK, Kind.COMMIT, Kind.EMPTY)
        if self.state == "E" and not ends:
            raise Refused(
                states.FAILED,
                "a statement of this transaction failed, so nothing else runs in it: send ROLLBACK",
            )
        match part.kind:
            case Kind.QUERY:
                self.query(portal, portal.prepared, portal.values)
            case Kind.CHANGE:
                self._change(portal)
            case Kind.EXPLAIN:
                self._explain(portal)
            case Kind.COPY:
                copy_of(self, portal)
            case Kind.SHOW:
                shown = variables.table_of(self.variables, part)
                portal.returns(shown.schema, iter(shown.to_batches()), counts="SHOW")
            case Kind.SET | Kind.RESET | Kind.DISCARD | Kind.DEALLOCATE | Kind.NOTHING:
                self._session(part, prepared)
                portal.ends(part.tag)
            case Kind.BEGIN | Kind.COMMIT | Kind.ROLLBACK:
                self._bound(portal, portals)
            case Kind.DECLARE | Kind.FETCH | Kind.CLOSE:
                cursor_of(self, portal, portals)
            case Kind.DEFINE:
                self._define(portal)
            case Kind.SAVEPOINT:
                self._savepoint(portal)
            case _:
                raise Refused(states.FEATURE, f"{part.tag[:40]} is not a statement of this gateway")

    def query(self, portal: Portal, prepared: Prepared, values: tuple[object, ...]) -> None:
        """Start a query whose rows a portal returns."""
        if prepared.spelled is not None and prepared.spelled.translated:
            # What it was translated with, as settings and tables, may be others by now.
            prepared.spelled = None
        query = self._spelled(prepared)
        asked = Asked(
            sql=query.sql,
            parameters=self._used(query.sql, values),
            given=catalog_rows(query, self.scene()),
        )
        if self._transaction is not None and not query.catalogs:
            names = self._tables_of(query.sql)
            asked = replace(asked, taken=self._transaction.read(names))
        answer = begun(self.gateway, self.caller, asked, self.new_stopper())
        oids = bool(query.catalogs)
        if query.endings:
            with closing(answer):
                rows = pa.Table.from_batches(answer, schema=answer.schema)
            done = self._backends.carry_out(self.caller, query.endings, rows)
            portal.returns(done.schema, iter(done.to_batches()), oids=oids)
            return
        portal.returns(answer.schema, iter(answer), closes=answer.close, oids=oids)

    def _tables_of(self, sql: str) -> frozenset[str]:
        """The tables that a query names. Raises what is wrong with it."""
        return self.gateway.engine.tables(
            sql, allowed=self.caller.tables, policies=self.caller.restricted
        )

    def check_writes(self) -> None:
        """Raise Refused or Problem if this session may not write now."""
        check_scope(self.caller, Scope.READ)
        check_scope(self.caller, Scope.WRITE)
        self.gateway.need_jobs()
        self._check_not_read_only()

    def _check_not_read_only(self) -> None:
        read_only = self.variables.get("default_transaction_read_only") == "on"
        if self._reads_only or read_only:
            raise Refused(
                states.READ_ONLY, "this transaction is READ ONLY, and the statement writes"
            )

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction is not None

    def scene(self) -> Scene:
        """What the spelling of names depends on."""
        return Scene(
            gateway=self.gateway,
            caller=self.caller,
            database=self.database,
            user=self.own.user,
            variables=self.variables,
            backends=self._backends,
            own=self.own,
        )

    def _used(self, sql: str, values: Sequence[object]) -> dict[str, object] | None:
        """The values that a text uses: DuckDB refuses others."""
        if not values:
            return None
        names = parameters_of(self.gateway, sql)
        numbered = {str(place): value for place, value in enumerate(values, start=1)}
        return {name: value for name, value in numbered.items() if name in names} or None

    def _spelled(self, prepared: Prepared) -> Spelled:
        if prepared.spelled is None:
            part = meant(prepared.part, self.gateway, self.caller)
            prepared.spelled = spelled(part, self.scene())
        return prepared.spelled

    def new_stopper(self) -> Stopper:
        """What stops the statement that begins now, if it is cancelled or takes too long."""
        self._stopper = Stopper()
        return self._stopper

    def _explain(self, portal: Portal) -> None:
        sql = self._spelled(portal.prepared).sql
        asked = Asked(sql=sql, parameters=self._used(sql, portal.values))
        answer = begun(self.gateway, self.caller, asked, self.new_stopper())
        portal.returns(answer.schema, iter(answer), closes=answer.close, counts="EXPLAIN")

    def _change(self, portal: Portal) -> None:
        part = portal.prepared.part
        self.check_writes()
        sql = self._spelled(portal.prepared).sql
        values = list(portal.values) or None
        if self._transaction is None and not portal.prepared.returning:
            self._submits(portal, sql, values, lambda job: tag_of(part, counted_by(job)))
            return
        (text,) = split_statements(self.gateway.engine.syntax, sql)
        alone = self._transaction is None
        within = self._transaction or self._new_transaction()
        doing = self._doing(values)  # a cancel stops the newest
        with placed(self.gateway, self.caller, sql, self._stopper) as runs:
            runs()
            outcome = within.run(text, doing)
            if not alone:
                self._writes += 1  # one that fails changes nothing
            else:
                if outcome.rows is not None:
                    portal.check(outcome.rows.schema)
                self._serve(within.commit())
        counts = tag_of(part, counted(outcome.counts))
        if outcome.rows is None:
            portal.ends(counts)
            return
        verb = counts.rpartition(" ")[0]
        portal.returns(outcome.rows.schema, iter(outcome.rows), counts=verb)

    def _define(self, portal: Portal) -> None:
        """CREATE, ALTER and DROP of a table: a version of its own."""
        part = portal.prepared.part
        self._check_not_read_only()
        if self._transaction is not None:
            raise Refused(
                states.FEATURE,
                f"{part.tag} is a version of its own, so it is not possible in a transaction: send "
                "it before BEGIN or after COMMIT; a driver does so with autocommit",
            )

        def tag(job: Job) -> str:
            rows = rows_changed(job)  # of CREATE TABLE … AS
            return part.tag if rows is None else f"SELECT {rows}"

        self._submits(portal, self._spelled(portal.prepared).sql, list(portal.values) or None, tag)

    def _submits(
        self, portal: Portal, sql: str, values: list[object] | None, tag: Callable[[Job], str]
    ) -> None:
        """Make a job of a statement outside of a transaction, as every door does."""
        self.new_stopper()
        sent = submitted(self.gateway, self.caller, Change(sql=sql, parameters=values))
        portal.waits = Waits(sent=sent, tag=tag)

    async def wait(self, portal: Portal) -> None:
        """Wait for the job of a portal. Raises Problem and Refused for one that failed."""
        waits, portal.waits = portal.waits, None
        if waits is None:
            return
        stopper, wait_s = self._stopper, self.gateway.settings.jobs.time_limit_s
        try:
            job = await ended_meanwhile(self.gateway, waits.sent, wait_s, stopper)
        except Problem as error:
            states.check_cancelled(error, stopped=stopper.stopped)
            raise
        portal.ends(waits.tag(job))

    def _new_transaction(self) -> Transaction:
        statements = Statements(self.gateway.engine, OfGateway(self.gateway, self.caller))
        return Transaction(statements, self._doing())

    def _serve(self, outcome: Outcome) -> None:
        """Serve what was committed from now on."""
        running().commits(outcome.table, outcome.version)
        if outcome.table is not None and outcome.version is not None:
            self.gateway.tables.catch_up(outcome.table, outcome.version)

    def _doing(self, values: list[object] | None = None) -> Doing:
        return Doing(
            parameters=values,
            allowed=self.caller.tables,
            budget=Budget(seconds=self.gateway.settings.jobs.time_limit_s),
            began=self.new_stopper().began,
            buffer_bytes=BUFFER_BYTES,
        )

    def _bound(self, portal: Portal, portals: MutableMapping[str, Portal]) -> None:
        """BEGIN, COMMIT and ROLLBACK."""
        part = portal.prepared.part
        chained = chains(part)
        portal.ends(part.tag)
        if part.kind is Kind.BEGIN:
            if self._transaction is not None:
                portal.notice = warning(states.IN_TRANSACTION, "a transaction is open already")
                return
            variables.check_isolation(part.words)
            self._open(reads_only=bool(variables.reads_only(part.words)))
            return
        if self._transaction is None and chained:
            raise Refused(states.NOT_IN_TRANSACTION, "AND CHAIN ends nothing: send BEGIN first")
        reads_only = self._reads_only
        for name in [own for own, other in portals.items() if other is not portal]:
            portals.pop(name).close()
        self._ended(portal)
        if chained:
            self._open(reads_only=reads_only)

    def _open(self, *, reads_only: bool) -> None:
        self._reads_only = reads_only
        self._failed, self._writes, self._savepoints = False, 0, {}
        self._transaction = self._new_transaction()
        self.variables.begin()

    def _ended(self, portal: Portal) -> None:
        kind = portal.prepared.part.kind
        ended, failed = self._transaction, self._failed
        self._transaction, self._failed, self._reads_only = None, False, False
        done = False
        try:
            if ended is None:
                portal.notice = warning(states.NOT_IN_TRANSACTION, "no transaction is open")
            elif kind is Kind.COMMIT and failed:
                portal.ends("ROLLBACK")
            elif kind is Kind.COMMIT:
                self._serve(ended.commit())
                done = True
        finally:
            self._changed += self.variables.end(committed=done)

    def _savepoint(self, portal: Portal) -> None:
        """SAVEPOINT, RELEASE, and ROLLBACK TO: what only reads can be undone alone, and a change
        only with its transaction."""
        part = portal.prepared.part
        name, verb = part.tokens[-1].text, part.words[0]
        if self._transaction is None:
            raise Refused(
                states.NOT_IN_TRANSACTION, "a savepoint lives in a transaction: send BEGIN first"
            )
        if verb == "SAVEPOINT":
            self._savepoints[name] = self._writes
        elif name not in self._savepoints:
            raise Refused("3B001", f"there is no savepoint {name!r}")
        elif verb == "RELEASE":
            del self._savepoints[name]
        elif self._savepoints[name] != self._writes:
            raise Refused(
                states.FEATURE,
                "rows were changed since this savepoint, and a change is undone only with its "
                "transaction: send ROLLBACK",
            )
        else:
            self._failed = False
            self._transaction.go_on()
        portal.ends(verb)

    def _session(self, part: Part, prepared: MutableMapping[str, Prepared]) -> None:
        """Statements about the session itself."""
        words = part.words
        match part.kind:
            case Kind.SET:
                self._changed += variables.assign(self.variables, part)
                if words[1] == "TRANSACTION" and self._transaction is not None:
                    only = variables.reads_only(words)
                    self._reads_only = self._reads_only if only is None else only
            case Kind.RESET:
                name = " ".join(words[1:]).replace(" . ", ".")
                self._changed += self.variables.reset(None if name.upper() == "ALL" else name)
            case Kind.DISCARD:
                self._changed += self.variables.reset()
                prepared.clear()
            case Kind.DEALLOCATE:
                name = part.tokens[-1].text
                if name.upper() == "ALL":
                    prepared.clear()
                elif prepared.pop(name, None) is None:
                    raise Refused(states.NO_STATEMENT, f"there is no prepared statement {name!r}")
