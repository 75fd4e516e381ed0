"""``blockstore cost``: what a lake of some size costs, from the formulas of ``service/cost.py``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from blockstore.cli.options import Json
from blockstore.cli.output import Column, count, say, show_json, show_table, size
from blockstore.service.cost import Cost, Lake
from blockstore.service.cost import cost as cost_of
from blockstore.service.kinds import size as parsed

_COLUMNS = (
    Column("part", "A MONTH OF"),
    Column("write", "PUT, LIST", right=True),
    Column("read", "GET", right=True),
    Column("delete", "DELETE", right=True),
    Column("dollars", "DOLLARS", right=True),
)


def cost(
    *,
    tables: Annotated[int, Parameter(help="Tables of the lake.")] = 1,
    writers: Annotated[int, Parameter(help="Writers, each of one table.")] = 1,
    appends: Annotated[float, Parameter(help="Appends a day of each writer.")] = 24.0,
    asked: Annotated[int, Parameter(help="Tables in use at a gateway.")] = 1,
    gateways: Annotated[int, Parameter(help="Gateways.")] = 1,
    blocks: Annotated[int, Parameter(help="Live blocks, in all tables.")] = 1_000,
    stored: Annotated[str, Parameter(help="Stored data, such as 2TiB.")] = "0",
    json: Json = False,
) -> None:
    """Estimate what a lake costs a month, and what memory its processes take.

    It asks no store: the figures come from formulas with measured constants, and from list prices
    of a large store. Reading rows and traffic out of the store come on top.
    """
    lake = Lake(
        tables=tables,
        writers=writers,
        appends_a_day=appends,
        asked_tables=asked,
        gateways=gateways,
        blocks=blocks,
        size_bytes=parsed(stored, "stored"),
    )
    found = cost_of(lake)
    if json:
        show_json(_json(found))
        return
    rows = [
        {
            "part": part,
            "write": count(round(one.write)),
            "read": count(round(one.read)),
            "delete": count(round(one.delete)),
            "dollars": f"{found.dollars[part]:,.2f}",
        }
        for part, one in found.requests.items()
    ]
    empty = {"write": "", "read": "", "delete": ""}
    rows.append({"part": "storage", **empty, "dollars": f"{found.dollars['storage']:,.2f}"})
    rows.append({"part": "all", **empty, "dollars": f"{found.total_dollars:,.2f}"})
    show_table(_COLUMNS, rows)
    say(
        f"memory: a gateway {size(round(found.gateway_bytes))}, the compactor "
        f"{size(round(found.compactor_bytes))} and its merges"
    )


def _json(found: Cost) -> dict[str, object]:
    return {
        "requests": {
            part: {
                "write": round(one.write),
                "read": round(one.read),
                "delete": round(one.delete),
            }
            for part, one in found.requests.items()
        },
        "dollars": {part: round(value, 4) for part, value in found.dollars.items()},
        "gateway_bytes": round(found.gateway_bytes),
        "compactor_bytes": round(found.compactor_bytes),
    }
