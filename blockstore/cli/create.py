"""``blockstore create``: define a table, from ``name:type,…`` or from the schema of a file."""

from __future__ import annotations

import os
from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.definitions import definition_json, described
from blockstore.cli.failure import Usage
from blockstore.cli.files.source import schema_of, sources
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.schema_text import parse_schema
from blockstore.cli.values import listed, pairs
from blockstore.table import create as create_table

__all__ = ["create"]


def create(
    url: str,
    /,
    *,
    schema: str,
    time_column: str | None = None,
    sort_by: str | None = None,
    property_: Annotated[Many, Parameter(name="--property", negative="")] = (),
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    key: str | None = None,
    json: Json = False,
) -> None:
    """Define a table.

    Parameters
    ----------
    url
        Where the table will lie; the last part of its path is its name in SQL.
    schema
        The columns as `name:type,…` (`"id:int!, time:timestamp[us, UTC], tags:list<string>"`; `!` is not null), or a
        Parquet, CSV, TSV, JSON lines or Arrow file to take them from.
    time_column
        The timestamp or date by which blocks are pruned and merged.
    sort_by
        The columns, `a,b`, by which rows are sorted in every file.
    property_
        A table property, `name=value`: consistency, sync_delay, delete_delay, partial_delay, history_retention,
        retention, isolation.
    label
        A constant of everything that is appended, `name=value`; blocks of different labels are never merged.
    key
        Not yet: keyed tables come later.
    json
        Print the definition as JSON.
    """
    if key is not None:
        raise Usage(
            "--key is not there yet: keyed tables come with a later release; leave it out to append rows"
        )
    table = create_table(
        url,
        schema=_schema(schema),
        time_column=time_column,
        sort_by=listed(sort_by),
        labels=pairs(label, "--label"),
        properties=pairs(property_, "--property"),
    )
    if json:
        show_json({"url": table.url, "version": table.log.state.version, **definition_json(table.definition)})
    else:
        say(f"created {table.url}: {described(table.definition)}")


def _schema(text: str) -> pa.Schema:
    if os.path.isfile(text):
        with sources((text,), None) as (source,):
            return schema_of(source)
    if ":" not in text:
        raise Usage(f"--schema is {text!r}, expected name:type,… or a file that exists")
    return parse_schema(text)
