"""From a URL to a bucket: the one place that knows the schemes.

``lake/flights``, ``file:///data/lake`` (both take ``?durable=false``), ``memory://name/prefix``, ``s3://bucket/prefix``.
``bucket.url`` is the canonical form: absolute, without a slash at the end. Opening sends no request.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

from blockstore.bucket.api import Bucket
from blockstore.bucket.keys import check_key
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import memory_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.retrying import Retrying
from blockstore.errors import Invalid
from blockstore.world import Threads, World

__all__ = ["open_bucket"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_FORMS = "a path, file:///dir, memory://name or s3://bucket/prefix"


def open_bucket(url: str, world: World) -> Bucket:
    """The bucket behind ``url``. An S3 bucket sends again what may be sent again (``retrying.py``)."""
    match = _SCHEME.fullmatch(url)
    if match is None:
        path, _, query = url.partition("?")
        return _local(url, path, query, world)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        path, _, query = rest.partition("?")
        if not path.startswith("/"):
            raise Invalid(f"{url!r} names a host: a file URL has three slashes, file:///dir.")
        return _local(url, unquote(path), query, world)
    if scheme not in {"memory", "s3"}:
        raise Invalid(f"The scheme of {url!r} is unknown: use {_FORMS}.")
    name, _, prefix = rest.rstrip("/").partition("/")
    if not name or "?" in rest:
        raise Invalid(f"{url!r} is no bucket URL: write {scheme}://name/prefix, without options.")
    bucket = _s3(name, world) if scheme == "s3" else memory_bucket(check_key(name), world.clock)
    return Prefixed(bucket, prefix) if prefix else bucket


def _local(url: str, path: str, query: str, world: World) -> LocalBucket:
    if not path or "\0" in path:
        raise Invalid(f"{url!r} names no folder: use {_FORMS}.")
    options = dict(parse_qsl(query, keep_blank_values=True))
    durable = options.pop("durable", "true")
    if options or durable not in {"true", "false"}:
        raise Invalid(
            f"The options of {url!r} are not understood: a folder takes ?durable=true or ?durable=false."
        )
    return LocalBucket(path, world.clock, durable=durable == "true")


def _s3(name: str, world: World) -> Bucket:
    from blockstore.bucket.s3 import S3Bucket

    workers = world.pool.workers if isinstance(world.pool, Threads) else 1
    return Retrying(S3Bucket(name, world.clock, connections=max(16, workers)), world)
