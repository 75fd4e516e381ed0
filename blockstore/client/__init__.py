"""The gateway's client: SQL, uploads and downloads over HTTP, for programs that hold no bucket.

client = blockstore.Client("https://gateway:8080", token)
client.sql("select origin, count(*) from flights group by 1").to_pandas()
client.upload("flights", "new.csv").wait()
client.download("flights", "flights.parquet")
"""

from blockstore.client.client import Client
from blockstore.client.job import RemoteJob
from blockstore.client.rows import Rows

__all__ = ["Client", "RemoteJob", "Rows"]
