"""A plan as DuckDB SQL, made from the neutral description alone: a second reader of the same
rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from blockstore.bucket.local import LocalBucket
from blockstore.scan import ScanGroup, ScanPlan


def name_of(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text_of(value: str | None) -> str:
    return "NULL::VARCHAR" if value is None else "'" + value.replace("'", "''") + "'"


def read_with_duckdb(
    connection: duckdb.DuckDBPyConnection,
    bucket: LocalBucket,
    plan: ScanPlan,
    condition: str | None,
) -> pa.Table:
    """The plan's rows; every column of the table and every label is offered to ``condition``."""
    selects = [_select(connection, bucket, plan, group) for group in plan.groups()]
    if not selects:
        return plan.output_schema.empty_table()
    outputs = ", ".join(name_of(name) for name in plan.output_schema.names)
    sql = f"SELECT {outputs} FROM ({' UNION ALL '.join(selects)}) WHERE {condition or 'TRUE'}"
    return connection.sql(sql).to_arrow_table().cast(plan.output_schema)


def _select(
    connection: duckdb.DuckDBPyConnection, bucket: LocalBucket, plan: ScanPlan, group: ScanGroup
) -> str:
    columns = []
    for read in plan.reads(group.schema_id).values():
        type_ = connection.from_arrow(pa.schema([(read.name, read.type)]).empty_table()).types[0]
        source = "NULL" if read.stored_as is None else name_of(read.stored_as)
        columns.append(f"CAST({source} AS {type_}) AS {name_of(read.name)}")
    columns += [f"{text_of(value)} AS {name_of(name)}" for name, value in group.labels.items()]
    files = ", ".join(text_of(bucket.path_of(chunk.key)) for chunk in group.chunks)
    conditions = ["TRUE"]
    if group.sources is not None:
        conditions.append(f"_source IN ({', '.join(map(text_of, sorted(group.sources)))})")
    if group.excepted is not None:
        conditions.append(f"_source NOT IN ({', '.join(map(text_of, sorted(group.excepted)))})")
    return (
        f"SELECT {', '.join(columns)} FROM read_parquet([{files}]) WHERE {' AND '.join(conditions)}"
    )
