"""Whether Spark's JVM can open a chunk itself, and by which path.

- A folder: every process of the session's machine opens it. A cluster must mount it everywhere
  under the same path, as the tasks' Python also requires.
- ``s3://``: only with Hadoop's S3A connector on the driver's class path, and only if it uses the
  same endpoint as this process. Otherwise it would read another store.
- Across Spark Connect the server's machine is unknown, so no path is returned.
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
"""Characters that Spark reads as a pattern or an escape in a path."""


def path_of_chunks(session: Any, bucket: ReadBucket, sample: str) -> PathOf | str:
    """A function from an object's key to its path in Spark; or, as the end of a sentence, why there
    is none. ``sample`` is any key of the bucket."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return "across Spark Connect the server's files are not known"
    if bucket.path_of(sample) is not None:
        return lambda key: f"file://{bucket.path_of(key)}"
    if not bucket.url.startswith(S3):
        return f"{bucket.url} is not a folder of this machine"
    missing = _without_s3a(session)
    if missing is not None:
        return missing
    root = "s3a://" + bucket.url.removeprefix(S3).partition("?")[0]
    return lambda key: f"{root}/{key}"


def _without_s3a(session: Any) -> str | None:
    """Why Spark's S3A connector cannot be used, as the end of a sentence; None if it can."""
    context = session.sparkContext
    try:
        context._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(S3A)
    except Exception:  # noqa: BLE001 - any error of the JVM means that the class is missing
        return "Spark has no S3A connector (hadoop-aws) on its class path"
    endpoint = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), "")
    configured = context._jsc.hadoopConfiguration().get("fs.s3a.endpoint") or ""
    if endpoint.rstrip("/") != configured.removesuffix(AMAZON).rstrip("/"):
        return (
            f"Spark's S3A connector uses {configured or 'Amazon'} "
            f"(spark.hadoop.fs.s3a.endpoint) and this process uses {endpoint or 'Amazon'}"
        )
    return None
