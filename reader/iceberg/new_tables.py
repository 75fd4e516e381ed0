"""Tables that clients of the catalog create, alone or together with their first rows.

Rules:
- A table is created by a job, in the first lake of the gateway, as over HTTP.
- With rows it is two versions: the empty table, and its rows. Each counts once, however often the
  client sends the commit. A table whose rows are refused is dropped again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part, without_options
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound, Unavailable
from blockstore.export.exported import Exported
from blockstore.export.iceberg.metadata import metadata_of_none, table_uuid
from blockstore.reader.doors.definitions import check_new, creating, dropping
from blockstore.reader.doors.submitted import ended, job_id, submit
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.shapes import TableBody
from blockstore.reader.http.tokens import Caller
from blockstore.reader.iceberg.catalog import AlreadyThere, UnknownNamespace
from blockstore.reader.iceberg.commits.new_table import NewTable
from blockstore.reader.iceberg.creating import body_of, staged
from blockstore.reader.iceberg.documents import object_of
from blockstore.reader.jobs.bodies import definition_of
from blockstore.reader.jobs.record import Request as JobRequest
from blockstore.table import Table

_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class NewTables:
    """The tables that a caller creates in a namespace."""

    gateway: Gateway
    caller: Caller
    namespace: str

    def created(self, asked: Mapping[str, Any]) -> Exported:
        """Create an empty table.

        Args:
            asked: The body of ``POST /v1/tables``.

        Raises:
            Invalid, Problem: There can be no such table.
            UnknownNamespace, AlreadyThere: In another namespace, or of another name, there can be.
            Unavailable: As a job.
        """
        name, body = self._checked(asked)
        self._check_free(name)
        carried_out(self.gateway, creating(self.gateway, self.caller, name, ""), body)
        return self.gateway.catalog.load(self.namespace, name, self.caller.tables)

    def staged(self, request: object) -> dict[str, Any]:
        """Return the metadata of a table that is not created yet. Raises as ``created``."""
        asked = object_of(request, "the body")
        name, body = self._checked(body_of(asked))
        self._check_free(name)
        bucket = Prefixed(self.gateway.lake, name)
        location = without_options(bucket.url)
        version, definition = 0, definition_of(body)
        try:
            before = Table.open_bucket(bucket, self.gateway.world, dropped=True).log.state
            version, definition = before.version, definition.following(before.definition)
        except NotFound:
            pass
        now_ms = self.gateway.world.clock.now_ms()
        return staged(metadata_of_none(location, version + 1, definition, now_ms), asked, body)

    def created_with_rows(self, wanted: NewTable) -> Exported:
        """Create a table and append its rows. Raises as ``created`` and ``Catalog.commit``."""
        name, body = self._checked(wanted.body)
        snapshot = "" if wanted.rows is None else wanted.rows.snapshot
        job = job_id(self.gateway, self.caller, f"iceberg {wanted.uuid} {snapshot}")
        carried_out(self.gateway, creating(self.gateway, self.caller, name, ""), body, job)
        table = Table.open_bucket(Prefixed(self.gateway.lake, name), self.gateway.world)
        location = without_options(table.bucket.url)
        if table_uuid(location, table.log.state.created) != wanted.uuid:
            # It may be the table of somebody else: it is not dropped.
            raise Conflict(
                f"other tables called {name} came and went since the client asked for this one: if "
                "there is an empty one now, drop it, and begin again"
            )
        catalog, allowed = self.gateway.catalog, self.caller.tables
        try:
            schemas = table.log.state.definition.schemas
            wanted.check(schemas[min(schemas)])
            if wanted.rows is None:
                return catalog.load(self.namespace, name, allowed)
            return catalog.commit(self.namespace, name, allowed, wanted.rows)
        except (Conflict, Invalid):
            self._drop_empty(name)
            raise

    def _drop_empty(self, name: str) -> None:
        try:
            dropped = dropping(self.gateway, self.caller, name, "its first rows were refused")
            carried_out(self.gateway, dropped, {"empty": True})
        except (BlockstoreError, Problem):
            return  # It has rows of others, or the store does not answer: the table stays.

    def _checked(self, asked: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        known = self.gateway.catalog.namespaces(self.caller.tables)
        own = last_part(self.gateway.lake.url.partition("?")[0])
        if self.namespace != own:
            raise UnknownNamespace(
                f"tables are created in the namespace {own}, and not in {self.namespace[:200]}"
                + ("" if self.namespace in known else ", which does not exist")
            )
        try:
            body = TableBody.model_validate(asked).model_dump()
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise Problem(400, f"{where} of the table is not valid: {first['msg']}") from error
        definition_of(body)
        name = str(body["name"])
        check_new(self.caller, name)
        return name, body

    def _check_free(self, name: str) -> None:
        if name in self.gateway.tables.names():
            raise AlreadyThere(
                f"there is already a table {name} in {self.namespace}: choose another name"
            )


def carried_out(
    gateway: Gateway, wanted: JobRequest, body: Mapping[str, Any], job: str | None = None
) -> None:
    """Carry out a job to its end; ``job`` is its id, if it must be the same each time. Raises
    Problem for one that fails, and Unavailable for one that takes too long."""
    own = job or gateway.world.ids.ulid()
    made = submit(gateway, own, wanted, orjson.dumps(body))
    found = ended(gateway, own, wanted, made, _WAIT_S)
    if not found.state.ended:
        raise Unavailable(f"job {own} has not ended within {_WAIT_S:.0f} s: look at it again")
