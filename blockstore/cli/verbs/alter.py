"""``blockstore alter``: add columns, widen types, set properties. No block is changed."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.definitions import definition_json, described
from blockstore.cli.failure import Usage
from blockstore.cli.options import Json, Many
from blockstore.cli.output import say, show_json
from blockstore.cli.schema_text import parse_schema
from blockstore.cli.values import pairs
from blockstore.errors import Invalid
from blockstore.table import open_any


def alter(
    url: str,
    /,
    *,
    add: str | None = None,
    widen: str | None = None,
    property_: Annotated[Many, Parameter(name="--property", negative="")] = (),
    message: str = "",
    json: Json = False,
) -> None:
    """Add or widen columns, set properties.

    Blocks are not rewritten. Old blocks are read under the new definition: a column that they lack
    is null, and a narrower type is widened.

    Parameters
    ----------
    url
        The table.
    add
        Columns to add at the end, `name:type,…`.
    widen
        Columns to widen and their new types, `name:type,…`.
    property_
        A table property to set, `name=value`.
    message
        A comment for the history.
    json
        Print the new definition as JSON.
    """
    if add is None and widen is None and not property_:
        raise Usage("nothing to change: give --add, --widen or --property")
    wider = {} if widen is None else {field.name: field.type for field in parse_schema(widen)}
    table = open_any(url)
    if not table.indexed:
        raise Invalid(
            f"the table at {table.url} has no index to record the change: alter it in the program "
            "that writes, whose next block carries the change"
        )
    definition = table.alter(
        add=() if add is None else list(parse_schema(add)),
        widen=wider,
        properties=pairs(property_, "--property"),
        message=message,
    )
    if json:
        show_json(
            {"url": table.url, "version": table.log.state.version, **definition_json(definition)}
        )
    else:
        say(f"altered {table.url}, version {table.log.state.version}: {described(definition)}")
