"""A client of the gateway: SQL, uploads and downloads over HTTP, for programs without bucket
access.

``Client`` sends small requests and retries those that are safe to repeat (``wire.py``). A query is
a ``Rows``, sent when its rows are needed and read in bounded memory. Uploads, downloads and long
queries are jobs of the gateway; ``RemoteJob`` waits for one and fetches its file.
``blockstore.client.dbapi`` is the same for tools that use DB-API 2.0.

Example::

    client = blockstore.Client("https://gateway:8080", token)
    client.sql("select origin, count(*) from flights group by 1").to_pandas()
    client.upload("flights", "new.csv").wait()
    client.download("flights", "flights.parquet")

Errors of the gateway are raised as the errors of ``blockstore.errors``.
"""

from blockstore.client.client import Client
from blockstore.client.job import RemoteJob
from blockstore.client.rows import Rows

__all__ = ["Client", "RemoteJob", "Rows"]
