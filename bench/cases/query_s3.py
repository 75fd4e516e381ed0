"""Queries over 20 files on a real S3 server (SeaweedFS), through a gateway's cache on this
machine's disk.

Cold: the gateway runs, its cache is empty; beside it stand plain GETs of the very chunks that the
query fetched. Warm: the cache is filled; beside it stands DuckDB over a local copy. All take turns,
and every query has other literals.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.case import Case, Figures, Metric, Sizes, Task
from bench.cases import query
from bench.cases.query_blocks import SIZES
from bench.peers.api import Handle
from bench.peers.duckdb import DuckHandle
from bench.peers.gateway import GatewayHandle
from bench.peers.s3.place import BUCKET
from bench.server import server
from bench.timing import milliseconds
from blockstore.bucket import open_bucket
from blockstore.care.replicate import Replicator
from blockstore.reader.cache import ChunkCache
from blockstore.table import open as open_table
from blockstore.world import World

__all__ = ["S3_CASES"]

URL = f"s3://{BUCKET}/table"
TURNS = 3
WARM_TIMES = 15
"""As many as where the files are local: with seven, a ratio swung by a tenth either way."""
_Ask = Callable[[Handle, random.Random, Sizes], None]


def _measure(ask: _Ask) -> Callable[[Task], Figures]:
    def measure(task: Task) -> Figures:
        """The query, cold and warm, in milliseconds and against its reference; and what a cold one
        reads."""
        world, draw = World.real(), random.Random(task.seed)
        spent: dict[str, list[float]] = {"cold": [], "get": [], "warm": [], "local": []}
        with (
            tempfile.TemporaryDirectory(dir=task.directory.parent) as place,
            server(Path(place) / "s3"),
        ):
            client = _client()
            source = open_bucket(f"{task.directory / 'table'}?durable=false", world)
            Replicator(source, open_bucket(URL, world), world).once()
            chunks = open_table(URL, world=world).snapshot().scan().plan.chunks
            keys = {chunk.file.sha256: f"table/{chunk.key}" for chunk in chunks}
            local = DuckHandle(task.directory, ["id"])
            for turn in range(TURNS):
                folder = Path(place) / f"cache-{turn}"
                cache = ChunkCache(folder, world)
                gateway = GatewayHandle(URL, cache=cache)
                gateway.ready()
                spent["cold"].append(_median(ask, gateway, draw, task.sizes, times=1, warm=0))
                fetched = [keys[file.name] for file in (folder / "files").iterdir()]
                read = cache.counts.bytes_fetched
                spent["get"].append(
                    milliseconds(partial(_get, client, fetched, world), times=1, warm=0)
                )
                query.group_by(gateway, draw, task.sizes)
                for way, handle in (("warm", gateway), ("local", local)):
                    spent[way].append(
                        _median(ask, handle, draw, task.sizes, times=WARM_TIMES, warm=2)
                    )
                gateway.close()
            local.close()
        cold, get, warm, beside = (statistics.median(values) for values in spent.values())
        return {
            "cold_ms": cold,
            "cold_ratio": cold / get,
            "read_mib": read / 2**20,
            "warm_ms": warm,
            "warm_ratio": warm / beside,
        }

    return measure


def _client() -> Any:
    import boto3

    return boto3.client("s3")


def _median(
    ask: _Ask, handle: Handle, draw: random.Random, sizes: Sizes, *, times: int, warm: int
) -> float:
    return milliseconds(lambda: ask(handle, draw, sizes), times=times, warm=warm)


def _get(client: Any, keys: Sequence[str], world: World) -> None:
    """The bytes of all keys, side by side as the cache fetches them, and thrown away."""
    world.pool.map(lambda key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read(), keys)


def _case(name: str, ask: _Ask, sentence: str) -> Case:
    figures = (
        ("cold_ms", "ms", "cold", 0),
        ("cold_ratio", "x", "against plain GETs of the same bytes", 2),
        ("read_mib", "MiB", "read when cold", 1),
        ("warm_ms", "ms", "warm", 1),
        ("warm_ratio", "x", "against DuckDB on a local copy", 2),
    )
    return Case(
        name=name,
        sentence=f"{sentence}, in 20 files on an S3 server, through a gateway",
        peers=("ours-gateway",),
        metrics=tuple(
            Metric(name=metric, unit=unit, title=title, higher_is_better=False, digits=digits)
            for metric, unit, title, digits in figures
        ),
        sizes=SIZES[20],
        rounds=2,
        prepare=query.POINT.prepare,
        measure=_measure(ask),
        borrows={"ours-gateway": "ours"},
        reference="ours-gateway",
    )


S3_CASES = (
    _case("point-s3", query.point, "fetch 1,000 neighboring rows of 10 M, all columns"),
    _case("groupby-s3", query.group_by, "count and sum by a column of 10 values over 10 M rows"),
)
