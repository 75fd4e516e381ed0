"""``blockstore create``: define a table, from ``name:type,…`` or from the schema of a file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.definitions import definition_json, described, read_schema
from blockstore.cli.failure import Usage, remark
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.rules import parse_rules, with_rules
from blockstore.cli.values import listed, pairs
from blockstore.operations.unindexed import declare
from blockstore.table import Table
from blockstore.table import create as create_table


def create(
    url: str,
    /,
    *,
    schema: str,
    time_column: str | None = None,
    sort_by: str | None = None,
    rule: Annotated[Many, Parameter(name="--rule", negative="")] = (),
    property_: Annotated[Many, Parameter(name="--property", negative="")] = (),
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    no_index: Annotated[bool, Parameter(negative="")] = False,
    row_ids: Annotated[bool, Parameter(negative="")] = False,
    key: str | None = None,
    json: Json = False,
) -> None:
    """Define a table.

    Parameters
    ----------
    url
        Where to create the table. The last part of the path is its name in SQL.
    schema
        The columns as `name:type,…` (`"id:int!, time:timestamp[us, UTC], tags:list<string>"`; `!`
        is not null; entity, link and file are types with rules), or a Parquet, CSV, TSV, JSON
        lines or Arrow file to take them from.
    time_column
        The timestamp or date by which blocks are pruned and merged.
    sort_by
        The columns, `a,b`, by which rows are sorted in every file.
    rule
        A rule of a column, `column:rule=value`: not_null, max_length, pattern, default, check or
        description (`"age:check=age >= 0"`). Every row that is written must meet it.
    property_
        A table property, `name=value`: consistency, sync_delay, delete_delay, partial_delay,
        history_retention, retention, isolation,
        row_history.
    label
        A default label of everything that is appended, `name=value`. Blocks with different labels
        are never merged.
    no_index
        Create a table without an index: blocks become visible by their age, and there are no
        versions, jobs or transactions. An empty block holds the definition. Properties and labels
        are not stored; give them where they are needed.
    row_ids
        Give each row an id, so that rows can be changed and have versions.
    key
        The columns, `a,b`, whose values identify a row, so that rows can be changed and have
        versions. They are never null, and no floats.
    json
        Print the definition as JSON.
    """
    if no_index and (row_ids or key):
        raise Usage(
            "--no-index cannot be combined with --row-ids or --key: without an index rows have no "
            "versions"
        )
    if no_index and (property_ or label):
        raise Usage(
            "--no-index cannot be combined with --property or --label, because such a table does "
            "not store them: give labels to write, and properties to each process's configuration"
        )
    columns = read_schema(schema)
    table = create_table(
        url,
        schema=with_rules(columns, parse_rules(rule, columns)),
        time_column=time_column,
        sort_by=listed(sort_by),
        labels=pairs(label, "--label"),
        row_ids=row_ids,
        key=listed(key),
        properties=pairs(property_, "--property"),
        index=not no_index,
    )
    if not table.indexed:
        declare(table.bucket, table.world, table.definition)
    for note in _shortcomings(table):
        remark(note)
    if json:
        version = table.log.state.version if table.indexed else None
        show_json({"url": table.url, "version": version, **definition_json(table.definition)})
    else:
        say(f"created {table.url}: {described(table.definition)}")


def _shortcomings(table: Table) -> list[str]:
    """Return what the store lacks for this table, before it costs something.

    ``blockstore probe`` shows more.
    """
    notes = []
    fixed = table.log.boundary.why_fixed() if table.indexed else None
    if fixed is not None:
        notes.append(fixed)
    if table.bucket.keeps_versions():
        notes.append(
            "the bucket keeps old versions of removed objects, which cost storage: add a lifecycle "
            "rule that expires noncurrent versions"
        )
    return notes
