"""Whether Spark's JVM reaches a chunk by itself, and by which path.

- A folder: every process of the session's machine opens it. A cluster must mount it everywhere
  under the same path, as it must for the tasks' Python.
- ``s3://``: only with Hadoop's S3A connector on the driver's class path, and only where it looks at
  the same endpoint as this process does; else its answer would be of another store.
- Across Spark Connect nothing is known of the server's machine: nothing is reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from blockstore.bucket import ReadBucket

PathOf = Callable[[str], str]

S3 = "s3://"
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
AMAZON = "s3.amazonaws.com"
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
PATTERN_CHARACTERS = frozenset("{[*?\\%")
"""What Spark takes for a pattern or an escape in a path."""


def path_of_chunks(session: Any, bucket: ReadBucket, sample: str) -> PathOf | str:
    """The path of an object by its key, as Spark names it; or, as the end of a sentence, why there
    is none. ``sample`` is any key of the bucket."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return "across Spark Connect the server's files are not known"
    if bucket.path_of(sample) is not None:
        return lambda key: f"file://{bucket.path_of(key)}"
    if not bucket.url.startswith(S3):
        return f"{bucket.url} is no folder of this machine"
    missing = _without_s3a(session)
    if missing is not None:
        return missing
    root = "s3a://" + bucket.url.removeprefix(S3).partition("?")[0]
    return lambda key: f"{root}/{key}"


def _without_s3a(session: Any) -> str | None:
    """Why Spark's S3A connector cannot be asked, as the end of a sentence; None if it can."""
    context = session.sparkContext
    try:
        context._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(S3A)
    except Exception:  # noqa: BLE001 - whatever the JVM says, the class is not to be had
        return "Spark has no S3A connector (hadoop-aws) on its class path"
    asked = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")
    configured = context._jsc.hadoopConfiguration().get("fs.s3a.endpoint") or ""
    if asked.rstrip("/") != configured.removesuffix(AMAZON).rstrip("/"):
        return (
            f"Spark's S3A connector looks at {configured or 'Amazon'} "
            "(spark.hadoop.fs.s3a.endpoint) and this process at "
            f"{asked or 'Amazon'}"
        )
    return None
