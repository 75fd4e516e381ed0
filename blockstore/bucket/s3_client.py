"""boto3 clients: made at first use, one for each process and environment, without botocore's
retries.

Rules:
- A client never crosses a fork: each process makes its own (sockets must not be shared).
- boto3 finds endpoint, region, credentials and profile; nothing is configured here.
- botocore sends each request once, so that we see every response; ``retrying.py`` decides what is
  sent again. One exception: a request that was refused because the bucket is in another region goes
  to that region.
- No request waits for "100 Continue": that costs a PUT a round trip, and a store refuses a body
  rarely.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from datetime import datetime
from typing import Any, Protocol

from blockstore.bucket.api import ObjectInfo
from blockstore.errors import BlockstoreError, MissingExtra

_clients: dict[tuple[object, ...], Any] = {}
_lock = threading.Lock()

_CONNECT_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60


class S3Requests(Protocol):
    """What the writer and the deletes of an S3 bucket need of it."""

    def send(self, operation: str, key: str | None = None, **parameters: Any) -> Any: ...

    def error(self, error: Exception, key: str, *, write: bool) -> BlockstoreError: ...

    def place(self, key: str) -> str: ...

    def put(self, key: str, data: bytes) -> str: ...

    def head(self, key: str) -> ObjectInfo: ...


def require_boto3() -> None:
    """Raise MissingExtra if boto3 is not installed."""
    if importlib.util.find_spec("boto3") is None:
        raise MissingExtra(
            "s3:// URLs need boto3, which is not installed: run pip install 'blocklake[s3]'"
        )


def shared_client(connections: int) -> Any:
    """Return this process's S3 client for the present environment; it keeps up to ``connections``
    open."""
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    wanted = (os.getpid(), connections, settings)
    with _lock:
        if wanted not in _clients:
            _clients[wanted] = _make_client(connections)
        return _clients[wanted]


def _make_client(connections: int) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.handlers import add_expect_header
    from botocore.session import get_session

    session = get_session()
    # Parsing the thousand times of a page is most of a listing's cost with botocore's own parser.
    session.get_component("response_parser_factory").set_parser_defaults(
        timestamp_parser=parse_time
    )
    client = boto3.session.Session(botocore_session=session).client(
        "s3",
        # A store without regions accepts any; a client needs one.
        region_name=os.environ.get("AWS_REGION")
        or session.get_config_variable("region")
        or "us-east-1",
        config=Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            max_pool_connections=connections,
            retries={"total_max_attempts": 1, "mode": "standard"},
            tcp_keepalive=True,
            parameter_validation=False,
            # Checksum trailers are unknown to many stores; TLS and our own SHA-256 of each chunk
            # guard the bytes.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    client.meta.events.unregister("before-call.s3", add_expect_header)
    client.meta.events.register("before-call.s3.HeadBucket", _ask_the_region_once)
    return client


def _ask_the_region_once(context: dict[str, Any], **_: object) -> None:
    """botocore requests a bucket's region by HeadBucket, and would repeat that without end if it is
    redirected too."""
    context["s3_redirect"]["redirected"] = True


def parse_time(text: str) -> datetime:
    """Return the time of a header or of a listing; quickly for ISO 8601, which listings use."""
    from botocore.utils import parse_timestamp

    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return parse_timestamp(text)


def _forget_lock() -> None:
    """In a forked child: a thread that held the lock does not exist there to release it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
