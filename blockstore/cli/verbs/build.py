"""``blockstore build``: build a finished block in a local folder, without a network."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.care.ship.build import build_block, definition_at, folder_at, remember
from blockstore.cli.definitions import read_schema
from blockstore.cli.failure import Usage
from blockstore.cli.files.forms import Form
from blockstore.cli.files.source import FileRows, sources
from blockstore.cli.options import Json, Many
from blockstore.cli.output import counted, say, show_json, size
from blockstore.cli.progress import progress
from blockstore.cli.values import listed, pairs
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.world import World


def build(
    folder: str,
    /,
    *files: Annotated[str, Parameter(allow_leading_hyphen=True)],
    like: str | None = None,
    schema: str | None = None,
    time_column: str | None = None,
    sort_by: str | None = None,
    format_: Annotated[Form | None, Parameter(name="--format")] = None,
    null: Annotated[Many, Parameter(negative="")] = (),
    label: Annotated[Many, Parameter(name="--label", negative="")] = (),
    json: Json = False,
) -> None:
    """Build a finished block in a folder, offline, from files. Upload it later with ship.

    Parameters
    ----------
    folder
        Where finished blocks wait. The first build needs --like or --schema; the folder remembers
        it.
    files
        Parquet, CSV, TSV, JSON lines or Arrow files, compressed or not; `-` is standard input.
    like
        The table that the blocks are for. Its columns are read now, so this needs the network.
    schema
        The columns as `name:type,…`, or a file to take them from; with --time-column and --sort-by
        as for create.
    time_column
        The timestamp or date by which blocks are pruned and merged.
    sort_by
        The columns, `a,b`, by which rows are sorted in every file.
    format_
        The form of the files, if their names do not show it.
    null
        Another spelling of null in CSV and TSV, such as NA. An empty field is always null.
    label
        A label of the block, `name=value`.
    json
        Print the block as JSON.
    """
    if not files:
        raise Usage(
            "no file was given: name Parquet, CSV, TSV, JSON lines or Arrow files, or - for "
            "standard input"
        )
    if like is not None and (schema is not None or time_column is not None or sort_by is not None):
        raise Usage(
            "--like cannot be combined with --schema, --time-column or --sort-by: the table "
            "defines all of them"
        )
    if schema is None and (time_column is not None or sort_by is not None):
        raise Usage("--time-column and --sort-by need --schema: give the columns too")
    world = World.real()
    place = folder_at(folder, world)
    wanted = None if like is None else definition_at(like, world)
    if schema is not None:
        wanted = Definition.create(
            read_schema(schema), time_column=time_column, sort_by=listed(sort_by)
        )
    definition = remember(place, wanted)
    labels = pairs(label, "--label") or None
    with sources(files, format_) as named:
        total = sum(source.bytes for source in named)
        with progress(f"building in {folder}", total, quiet=json) as advance:
            rows = FileRows(named, definition.schema, null, advance)
            try:
                meta = build_block(place, world, definition, iter(rows), labels=labels)
            except Invalid as error:
                raise rows.placed(error) from error
    if json:
        block = (
            None if meta is None else {"ulid": meta.ulid, "rows": meta.rows, "bytes": meta.bytes}
        )
        show_json(block or {"ulid": None, "rows": 0, "bytes": 0})
    elif meta is None:
        say(f"nothing built in {folder}: the files have no rows")
    else:
        say(
            f"built {counted(meta.rows, 'row')}, {size(meta.bytes)}, in {folder} as block "
            f"{meta.ulid}: upload it with blockstore ship"
        )
