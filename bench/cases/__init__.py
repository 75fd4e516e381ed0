"""The benches, by name."""

from __future__ import annotations

from collections.abc import Sequence

from bench.case import Case
from bench.cases.append import AGING, APPEND
from bench.cases.append16 import APPEND16
from bench.cases.clients import CLIENTS
from bench.cases.doors import DOORS
from bench.cases.engines_scan import ENGINES_SCAN
from bench.cases.merge import MERGE_10GB, MERGE_SMALL, MERGE_WIDE
from bench.cases.merge_spark import MERGE_SPARK
from bench.cases.open import OPEN_CASES
from bench.cases.poll import POLL
from bench.cases.poll_million import POLL_MILLION
from bench.cases.query import COUNT, GROUP_BY, POINT
from bench.cases.query_blocks import QUERY_CASES
from bench.cases.query_s3 import S3_CASES
from bench.cases.rows_merge import ROWS_MERGE
from bench.cases.rows_update import ROWS_POINT, ROWS_UPDATE, ROWS_UPDATE16
from bench.cases.s3_append import S3_APPEND, S3_APPEND16, S3_GROUP
from bench.cases.s3_merge import S3_MERGE
from bench.cases.s3_open import S3_OPEN, S3_POLL
from bench.cases.s3_query import S3_GROUP_BY, S3_POINT
from bench.cases.s3_spark import S3_SPARK
from bench.cases.scale import S3_SCALE_CASES, SCALE_CASES
from bench.cases.spark_append import SPARK_APPEND
from bench.cases.spark_merge import SPARK_MERGE
from bench.cases.spark_read import SPARK_READ
from bench.cases.spark_stream import SPARK_STREAM
from bench.cases.start import START
from bench.cases.sync import SYNC

__all__ = ["CASES", "select"]

CASES = {
    case.name: case
    for case in (
        APPEND,
        AGING,
        APPEND16,
        *OPEN_CASES,
        POLL,
        POLL_MILLION,
        *SCALE_CASES,
        SYNC,
        POINT,
        GROUP_BY,
        COUNT,
        *QUERY_CASES,
        *S3_CASES,
        CLIENTS,
        DOORS,
        ENGINES_SCAN,
        ROWS_UPDATE,
        ROWS_POINT,
        ROWS_UPDATE16,
        ROWS_MERGE,
        MERGE_WIDE,
        MERGE_SMALL,
        MERGE_10GB,
        MERGE_SPARK,
        SPARK_APPEND,
        SPARK_READ,
        SPARK_MERGE,
        SPARK_STREAM,
        START,
        S3_APPEND,
        S3_APPEND16,
        S3_GROUP,
        S3_OPEN,
        S3_POLL,
        S3_POINT,
        S3_GROUP_BY,
        S3_MERGE,
        S3_SPARK,
        *S3_SCALE_CASES,
    )
}


def select(names: Sequence[str]) -> list[Case]:
    """The cases that ``names`` mean: a case, a group (``open`` = all ``open-…``), or ``all``."""
    chosen: list[Case] = []
    for name in names:
        found = [
            case
            for case in CASES.values()
            if name in ("all", case.name) or case.name.startswith((f"{name}-", f"{name}_"))
        ]
        if not found:
            raise ValueError(f"no bench is called {name!r}; there are {', '.join(CASES)}")
        chosen += [case for case in found if case not in chosen]
    return chosen
