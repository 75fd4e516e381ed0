"""``blockstore diff``: what changed between two versions of a table."""

from __future__ import annotations

from blockstore.cli.blocks import SHORT, meta_json
from blockstore.cli.options import Json
from blockstore.cli.output import Column, count, counted, say, show_json, show_table, size, span
from blockstore.cli.schema_text import type_name
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.table import open_any


def diff(url: str, before: int, after: int, /, *, json: Json = False) -> None:
    """Show what changed between two versions.

    Parameters
    ----------
    url
        The table.
    before
        The earlier version.
    after
        The later version.
    json
        Print JSON.
    """
    table = open_any(url)
    found = table.diff(before, after)
    columns = (
        _columns(table.log.at(before).definition, table.log.at(after).definition)
        if found.schema_changed
        else []
    )
    if json:
        show_json(
            {
                "before": found.before,
                "after": found.after,
                "rows": found.rows,
                "added": [meta_json(meta) for meta in found.added],
                "removed": [meta_json(meta) for meta in found.removed],
                "hidden": {ulid: list(sources) for ulid, sources in found.excepted.items()},
                "shown": {ulid: list(sources) for ulid, sources in found.shown.items()},
                "columns": columns,
            }
        )
        return
    say(
        f"version {found.before} to {found.after}: {_rows(found.rows)}, "
        f"{counted(len(found.added), 'block')} added, {count(len(found.removed))} removed"
    )
    rows = [_cells("+", meta) for meta in found.added] + [
        _cells("-", meta) for meta in found.removed
    ]
    if rows:
        show_table((Column("sign", ""), *SHORT), rows)
    for ulid, sources in found.excepted.items():
        say(f"hidden in {ulid}: the rows of {', '.join(sources)}")
    for ulid, sources in found.shown.items():
        say(f"shown again in {ulid}: the rows of {', '.join(sources)}")
    for column in columns:
        say(f"column {column['name']}: {column['before'] or 'none'} → {column['after'] or 'none'}")


def _rows(rows: int | None) -> str:
    if rows is None:
        return "rows unknown (some are hidden in merged blocks, and counting them needs a read)"
    return f"{'+' if rows >= 0 else ''}{counted(rows, 'row')}"


def _cells(sign: str, meta: BlockMeta) -> dict[str, str]:
    return {
        "sign": sign,
        "ulid": meta.ulid,
        "span": span(meta.min_time, meta.max_time),
        "rows": count(meta.rows),
        "size": size(meta.bytes),
        "level": str(meta.level),
    }


def _columns(before: Definition, after: Definition) -> list[dict[str, str | None]]:
    """Return the columns whose types differ; None where a version lacks the column."""
    old = {field.name: type_name(field.type) for field in before.schema}
    new = {field.name: type_name(field.type) for field in after.schema}
    names = [*new, *(name for name in old if name not in new)]
    return [
        {"name": name, "before": old.get(name), "after": new.get(name)}
        for name in names
        if old.get(name) != new.get(name)
    ]
