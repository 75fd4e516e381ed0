"""The contestants, by name. An adapter is imported only in the process that measures it.

One file a peer; each names its contestants in ``CONTESTANTS`` (one peer may run in several
settings).
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from bench.peers.api import Peer

__all__ = ["ADAPTERS", "load", "names"]

# Contestant -> adapter module. The order is the order of columns in every table.
ADAPTERS: Final = {
    "floor": "floor",
    "ours": "ours",
    "ours-sql": "ours",
    "ours-aged": "ours",
    "ours-durable": "ours",
    "ours-aged-durable": "ours",
    "ours-gateway": "gateway",
    "ours-leaves": "leaves",
    "lance": "pylance",
    "lance-btree": "pylance",
    "delta": "deltalake",
    "iceberg": "pyiceberg",
    "duckdb": "duckdb",
    "duckdb-1gib": "duckdb",
    "floor-s3": "s3.floor",
    "ours-s3": "s3.ours",
    "ours-sql-s3": "s3.ours",
    "ours-gateway-s3": "s3.ours",
    "ours-leaves-s3": "s3.leaves",
    "lance-s3": "s3.lance",
    "delta-s3": "s3.delta",
    "polars-s3": "s3.polars",
    "pyarrow-s3": "s3.pyarrow",
    "duckdb-s3": "s3.duckdb",
}
FAMILIES: Final = {
    "ours": "ours",
    "gateway": "ours",
    "leaves": "ours",
    "pylance": "lance",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "s3.floor": "floor",
    "s3.leaves": "ours",
    "s3.ours": "ours",
    "s3.lance": "lance",
    "s3.delta": "delta",
    "s3.polars": "polars",
    "s3.pyarrow": "pyarrow",
    "s3.duckdb": "duckdb",
}


def names(selection: str) -> frozenset[str]:
    """The contestants that ``--peers`` means: contestants or families, between commas; empty =
    all."""
    asked = [part.strip() for part in selection.split(",") if part.strip()]
    families = {FAMILIES.get(module, module) for module in ADAPTERS.values()}
    if unknown := sorted(set(asked) - set(ADAPTERS) - families):
        raise ValueError(
            f"no peer is called {unknown[0]!r}; there are {', '.join(sorted(families))}"
        )
    return frozenset(
        name
        for name, module in ADAPTERS.items()
        if not asked or name in asked or FAMILIES.get(module, module) in asked
    )


def load(name: str) -> Peer:
    """The contestant called ``name``; imports its adapter, so its libraries must be installed."""
    module = import_module(f"bench.peers.{ADAPTERS[name]}")
    return next(peer for peer in module.CONTESTANTS if peer.name == name)
