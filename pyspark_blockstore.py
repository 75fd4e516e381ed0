"""Lets Spark find ``format("blockstore")`` without registration: it looks for modules named
``pyspark_*``."""

from blockstore.spark.source import BlockstoreSource as DefaultSource

__all__ = ["DefaultSource"]
