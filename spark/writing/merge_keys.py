"""Rows that a merge inserts: whether their keys can exist, and which do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from blockstore.format import Definition
from blockstore.format.identity import Key
from blockstore.rows.parts import EFFECT, Effect
from blockstore.spark.types import quoted, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

OWN = "_blockstore_"
"""What the names of a merge's own columns begin with; no table has such a column."""
_EXISTS = OWN + "exists"


def are_new(
    key: Key,
    definition: Definition,
    equal: Mapping[str, str],
    here: Mapping[str, DataType],
    inserts: Iterable[Mapping[str, Any] | None],
    source: str,
) -> bool:
    """Return whether inserted rows can have no key that exists: they have the values by which no
    row was found, and these are of the key.

    Args:
        key: The table's.
        definition: The table's.
        equal: The source's column for each of the target where these are equal, if that is all by
            which rows are matched.
        here: The types of the source's columns.
        inserts: The values of each clause that inserts; None for all columns of the source.
        source: What expressions call the source.
    """
    if not equal or not set(equal) <= set(key.columns):
        return False
    there = {field.name: field.dataType for field in spark_schema(definition.schema)}
    if any(here.get(own) != there[name] for name, own in equal.items()):
        return False  # Spark compares them in a third type, and the table stores its own.
    return all(
        own == name if values is None else values.get(name) == f"{source}.{own}"
        for values in inserts
        for name, own in equal.items()
    )


def looked_up(rows: DataFrame, known: DataFrame, key: Key, definition: Definition) -> DataFrame:
    """Return the rows of a merge with those found that are new and have the key of a ``known``
    row."""
    from pyspark.sql import functions as sf

    kinds = {field.name: field.dataType for field in spark_schema(definition.schema)}
    known = known.select(
        *(sf.col(quoted(name)).alias(f"{OWN}key_{at}") for at, name in enumerate(key.columns)),
        sf.lit(True).alias(_EXISTS),
    )
    equal = [
        sf.col(quoted(name)).try_cast(kinds[name]) == sf.col(f"{OWN}key_{at}")
        for at, name in enumerate(key.columns)
    ]
    found = rows.join(known, every([sf.col(EFFECT) == int(Effect.NEW), *equal]), "left")
    effect = sf.when(sf.col(_EXISTS), int(Effect.EXISTS)).otherwise(sf.col(EFFECT))
    kept = [sf.col(quoted(name)) for name in rows.columns if name != EFFECT]
    return found.select(*kept, effect.alias(EFFECT))


def every(conditions: Iterable[Column]) -> Column:
    """Return all conditions as one."""
    return reduce(lambda one, other: one & other, conditions)
