"""The bucket of a URL: the one place that knows the schemes.

``lake/flights``, ``file:///data/lake`` (both take ``?durable=false``), ``memory://name/prefix``,
``s3://bucket/prefix`` (by obstore and boto3, or by one of them with ``?client=boto3`` or
``?client=obstore``), ``gs://bucket/prefix``, ``az://container/prefix``. ``bucket.url`` is the
canonical form: absolute, without a slash at the end. Opening sends no request.

The spellings of Spark and Hadoop for the same places are accepted too:
- ``file:/x`` is ``file:///x``: Spark hands out folders like that.
- ``s3a://`` and ``s3n://`` are ``s3://``.
- ``abfs://``, ``abfss://``, ``wasb://`` and ``wasbs://`` are ``az://`` where they name the account
  of the environment, or none; the endpoint decides whether the connection is encrypted.
- Any other text that begins with a scheme and one slash is refused: as a folder, the table would be
  where no user looks for it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from blockstore.bucket.api import Bucket
from blockstore.bucket.keys import check_key
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import Invalid
from blockstore.world import Threads, World

if TYPE_CHECKING:
    from blockstore.bucket.traffic.spare import Spare

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_FORMS = (
    "a path, file:///dir, memory://name, s3://bucket/prefix, gs://bucket/prefix or "
    "az://container/prefix"
)
_SCHEMES = ("memory", "s3", "gs", "az")
_CLIENTS = ("boto3", "obstore")

# A scheme has two letters at least: C:/ is a drive.
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)(.*)", re.DOTALL)
_HADOOP_S3 = re.compile(r"s3[an]://", re.IGNORECASE)
_HADOOP_AZURE = re.compile(r"(?:abfss?|wasbs?)://([^/?]+)(.*)", re.IGNORECASE | re.DOTALL)
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


def open_bucket(url: str | os.PathLike[str], world: World) -> Bucket:
    """Return the bucket at ``url``; one in a network repeats what is safe to repeat."""
    url = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(url, str):
        raise Invalid(f"the URL is {url!r}, expected text: {_FORMS}")
    url = _canonical(url)
    match = _SCHEME.fullmatch(url)
    if match is None:
        path, _, query = url.partition("?")
        return _local(url, path, query, world)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        path, _, query = rest.partition("?")
        if not path.startswith("/"):
            raise Invalid(f"{url!r} names a host; a file URL has three slashes: file:///dir")
        return _local(url, unquote(path), query, world)
    if scheme not in _SCHEMES:
        raise Invalid(f"the scheme of {url!r} is unknown: use {_FORMS}")
    place, question, query = rest.partition("?")
    name, _, prefix = place.rstrip("/").partition("/")
    if not name or (question and scheme != "s3"):
        raise Invalid(f"{url!r} is not a bucket URL: write {scheme}://name/prefix, without options")
    from blockstore.bucket.environment import check_environment

    check_environment(scheme)
    if scheme == "memory":
        from blockstore.bucket.memory import memory_bucket

        bucket: Bucket = memory_bucket(check_key(name), world.clock)
    elif scheme == "s3":
        bucket = _remote(scheme, _s3(name, _client(url, query), world), world)
    else:
        bucket = _remote(scheme, _cloud(scheme, name, world), world)
    return Prefixed(bucket, prefix) if prefix else bucket


def without_options(url: str) -> str:
    """Return a URL without its options, and without a slash at its end."""
    return url.partition("?")[0].rstrip("/")


def last_part(url: str) -> str:
    """Return the last part of a bucket's URL, unquoted: a table's name."""
    last = without_options(url).rpartition("/")[2]
    return unquote(last) if url.startswith("file:") else last


def _canonical(url: str) -> str:
    """The URL as ``open_bucket`` spells it.

    Raises Invalid for a scheme with one slash, and for an account other than the one whose key the
    environment holds.
    """
    single = _ONE_SLASH.fullmatch(url)
    if single is not None:
        scheme, rest = single[1], single[2]
        if scheme.lower() == "file":
            return f"file:///{rest}"
        meant = f"write {scheme}://{rest}" if scheme.lower() in _SCHEMES else f"use {_FORMS}"
        raise Invalid(
            f"{url!r} has one slash after the scheme: {meant}, or, for a folder of that name, "
            f"./{url}"
        )
    if _HADOOP_S3.match(url):
        return "s3" + url[3:]
    azure = _HADOOP_AZURE.fullmatch(url)
    return url if azure is None else f"az://{_container(url, azure[1])}{azure[2]}"


def _container(url: str, place: str) -> str:
    """The container of ``container@account.host``."""
    container, at, host = place.partition("@")
    account = host.partition(".")[0]
    known = os.environ.get(_ACCOUNT, "")
    if at and account != known:
        raise Invalid(
            f"{url!r} names the account {account!r}, but {_ACCOUNT} is {known!r}: set it to "
            f"{account}, with that account's key, or write az://{container}/prefix to use the "
            f"account {known!r}"
        )
    return container


def _client(url: str, query: str) -> str | None:
    """The client that an S3 URL names; None for the usual one."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    client = options.pop("client", None)
    if options or client not in (None, *_CLIENTS):
        raise Invalid(f"{url!r} has unknown options: s3:// takes ?client=boto3 or ?client=obstore")
    return client


def _local(url: str, path: str, query: str, world: World) -> LocalBucket:
    if not path or "\0" in path:
        raise Invalid(f"{url!r} does not name a folder: use {_FORMS}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    durable = options.pop("durable", "true")
    if options or durable not in {"true", "false"}:
        raise Invalid(
            f"{url!r} has unknown options: a folder takes ?durable=true or ?durable=false"
        )
    return LocalBucket(path, world.clock, durable=durable == "true")


def _remote(scheme: str, bucket: Bucket, world: World) -> Bucket:
    """The bucket with what a network needs: second requests for late reads, a pace, retries."""
    from blockstore.bucket.cloud_stores import Kind, endpoint
    from blockstore.bucket.retrying import Retrying
    from blockstore.bucket.traffic.hedged import Hedged
    from blockstore.bucket.traffic.paced import Paced
    from blockstore.bucket.traffic.traffic import shared_traffic

    place = f"{bucket.url.partition('?')[0]} at {endpoint(Kind(scheme))}"
    traffic = shared_traffic(place, etags_are_md5s=scheme == Kind.S3)
    spare = _spare(world)
    if spare is not None:
        bucket = Hedged(bucket, world.clock, traffic, spare)
    return Retrying(Paced(bucket, world.clock, traffic), world, traffic=traffic)


def _s3(name: str, client: str | None, world: World) -> Bucket:
    if client == "obstore":
        return _cloud("s3", name, world)
    workers = world.pool.workers if isinstance(world.pool, Threads) else 1
    connections = max(64, workers)
    if client == "boto3":
        from blockstore.bucket.s3_boto3 import Boto3Bucket

        return Boto3Bucket(name, world.clock, connections=connections, spare=_spare(world))
    from blockstore.bucket.s3 import S3Bucket

    return S3Bucket(name, world.clock, connections=connections, spare=_spare(world))


def _cloud(scheme: str, name: str, world: World) -> Bucket:
    from blockstore.bucket.cloud import CloudBucket
    from blockstore.bucket.cloud_stores import Kind

    return CloudBucket(Kind(scheme), name, world.clock, spare=_spare(world))


def _spare(world: World) -> Spare | None:
    from blockstore.bucket.traffic.spare import SPARE

    return SPARE if isinstance(world.pool, Threads) else None
