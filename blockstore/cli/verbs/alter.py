"""``blockstore alter``: change columns, their rules and properties. No block is changed."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
from cyclopts import Parameter

from blockstore.cli.definitions import definition_json, described
from blockstore.cli.failure import Usage
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.rules import parse_rules, with_rules
from blockstore.cli.schema_text import parse_schema
from blockstore.cli.values import listed, pairs
from blockstore.errors import Invalid
from blockstore.table import open_any


def alter(
    url: str,
    /,
    *,
    add: str | None = None,
    widen: str | None = None,
    rename: Annotated[Many, Parameter(name="--rename", negative="")] = (),
    drop: str | None = None,
    reorder: str | None = None,
    rule: Annotated[Many, Parameter(name="--rule", negative="")] = (),
    property_: Annotated[Many, Parameter(name="--property", negative="")] = (),
    message: str = "",
    json: Json = False,
) -> None:
    """Add, widen, rename, drop or reorder columns, set their rules, set properties.

    Blocks are not rewritten. Old blocks are read under the new definition: a column that they lack
    is null, and a narrower type is widened. A rule that is new reads the rows of the table, which
    must meet it.

    Parameters
    ----------
    url
        The table.
    add
        Columns to add at the end, `name:type,…`.
    widen
        Columns to widen and their new types, `name:type,…`.
    rename
        A column to rename, `name=new`.
    drop
        Columns to drop, `a,b`. Their names may be used again, by columns without their values.
    reorder
        The columns that come first, `a,b`, in their new order; the others follow.
    rule
        A rule of a column to set, `column:rule=value`: not_null, max_length, pattern, default,
        check or description; an empty value takes it away. Columns have the names that they have
        before this command, except in the text of a check.
    property_
        A table property to set, `name=value`.
    message
        A comment for the history.
    json
        Print the new definition as JSON.
    """
    if not (add or widen or rename or drop or reorder or rule or property_):
        raise Usage(
            "nothing to change: give --add, --widen, --rename, --drop, --reorder, --rule or "
            "--property"
        )
    added = pa.schema([]) if add is None else parse_schema(add)
    wider = {} if widen is None else {field.name: field.type for field in parse_schema(widen)}
    table = open_any(url)
    if not table.indexed:
        raise Invalid(
            f"the table at {table.url} has no index to record the change: alter it in the program "
            "that writes, whose next block carries the change"
        )
    known = table.definition.schema
    rules = parse_rules(rule, pa.schema([*known, *added]))
    new = {name: rules.pop(name) for name in added.names if name in rules}
    definition = table.alter(
        add=list(with_rules(added, new)),
        widen=wider,
        rename=pairs(rename, "--rename"),
        drop=listed(drop),
        reorder=listed(reorder),
        columns=rules,
        properties=pairs(property_, "--property"),
        message=message,
    )
    if json:
        show_json(
            {"url": table.url, "version": table.log.state.version, **definition_json(definition)}
        )
    else:
        say(f"altered {table.url}, version {table.log.state.version}: {described(definition)}")
