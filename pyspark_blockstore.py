"""Let Spark find ``format("blockstore")`` without registration: Spark looks for data sources in
modules named ``pyspark_*``.
"""

from blockstore.spark.source import BlockstoreSource as DefaultSource

__all__ = ["DefaultSource"]
