"""Opening obstore's stores: one for each process, without obstore's retries, configured by the
environment.

Rules:
- obstore sends each request once (``max_retries`` 0), so that we see every response;
  ``retrying.py`` decides what is sent again. A conditional write that is resent could lose against
  itself.
- One store for each bucket, process and environment: its connections are kept, and shared by all
  tables of the bucket.
- obstore's threads do not survive a fork: every request in a child of a process that has used it
  would wait forever. Such a child raises Invalid; ``s3.py`` uses boto3 there. A process that forks
  first may use obstore.
- Endpoint and credentials come from the environment, as each store's own tools read them. For S3
  that includes boto3's profiles, where boto3 is installed. Credentials that expire are requested
  again every ``_CREDENTIALS_LAST``: boto3 renews them when they have ten minutes left.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from datetime import timedelta
from enum import StrEnum
from typing import Any

from blockstore.bucket.s3_settings import encryption, has_keys, s3_region
from blockstore.errors import Invalid, MissingExtra

_CONNECT_TIMEOUT = "10s"
_READ_TIMEOUT = "120s"
_WHOLE_TIMEOUT = "1h"
_CREDENTIALS_LAST = timedelta(minutes=5)

_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_")

_stores: dict[tuple[object, ...], Any] = {}
_lock = threading.Lock()

_used_in: int | None = None
"""The process in which obstore was first used, and which has its threads."""


class Kind(StrEnum):
    """A kind of store, by its URL scheme."""

    S3 = "s3"
    GS = "gs"
    AZ = "az"


def require_obstore() -> None:
    """Raise MissingExtra if obstore is not installed."""
    if importlib.util.find_spec("obstore") is None:
        raise MissingExtra(
            "gs:// and az:// URLs, and s3:// with ?client=obstore, need obstore, which is not "
            "installed: run pip install 'blocklake[cloud]'"
        )


def survives_here() -> bool:
    """Return whether this process may use obstore: whether it did not fork after using it."""
    return _used_in in (None, os.getpid())


def mark_used() -> None:
    """Record that this process uses obstore.

    Raises Invalid in a forked child of a process that used it before.
    """
    global _used_in
    if not survives_here():
        raise Invalid(
            f"process {_used_in} used obstore before it forked this one, in which requests would "
            "wait forever: open the bucket after the fork only, start processes by spawn, or use "
            "boto3 (a URL without ?client=obstore)"
        )
    _used_in = os.getpid()


def shared_store(kind: Kind, name: str) -> Any:
    """Return this process's store of a bucket for the present environment."""
    settings = tuple(sorted(item for item in os.environ.items() if item[0].startswith(_PREFIXES)))
    wanted = (os.getpid(), kind, name, settings)
    with _lock:
        if wanted not in _stores:
            _stores[wanted] = open_store(kind, name)
        return _stores[wanted]


def open_store(kind: Kind, name: str) -> Any:
    """Return obstore's store of a bucket (for Azure: a container of the environment's account)."""
    from obstore import store

    options: dict[str, Any] = {
        "client_options": {
            "connect_timeout": _CONNECT_TIMEOUT,
            "read_timeout": _READ_TIMEOUT,
            "timeout": _WHOLE_TIMEOUT,
            "allow_http": endpoint(kind).startswith("http://"),
        },
        "retry_config": {"max_retries": 0},
    }
    match kind:
        case Kind.GS:
            return store.GCSStore(name, **options)
        case Kind.AZ:
            return store.AzureStore(name, **options)
        case Kind.S3:
            encryption()  # obstore would leave out what it does not know
            # A batch has no order, and the order of a removal is a promise (R7).
            return store.S3Store(name, disable_bulk_delete=True, **_s3_settings(), **options)


def endpoint(kind: Kind) -> str:
    """Return the store's address without a bucket: a response from there has the store's time."""
    match kind:
        case Kind.S3:
            named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            return named or f"https://s3.{s3_region()}.amazonaws.com"
        case Kind.GS:
            return os.environ.get("GOOGLE_BASE_URL") or "https://storage.googleapis.com"
        case Kind.AZ:
            named = os.environ.get("AZURE_STORAGE_ENDPOINT") or os.environ.get("AZURE_ENDPOINT")
            account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
            return named or f"https://{account}.blob.core.windows.net"


def _s3_settings() -> dict[str, Any]:
    """Return S3's region, and boto3's credentials unless the environment has some."""
    if has_keys(os.environ):
        # An empty token is none: obstore would send it, and the store refuse it.
        empty = os.environ.get("AWS_SESSION_TOKEN") == ""
        return {"region": s3_region(), **({"credential_provider": _plain_keys} if empty else {})}
    if importlib.util.find_spec("boto3") is None:
        return {"region": s3_region()}
    from boto3.session import Session

    session = Session()
    region = os.environ.get("AWS_REGION") or session.region_name or s3_region()
    if session.get_credentials() is None:
        return {"region": region}
    from obstore.auth.boto3 import Boto3CredentialProvider

    provider = Boto3CredentialProvider(session, ttl=_CREDENTIALS_LAST)
    return {"region": region, "credential_provider": provider}


def _plain_keys() -> dict[str, Any]:
    """The keys of the environment, without a token."""
    return {
        "access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "token": None,
        "expires_at": None,
    }


def _forget_lock() -> None:
    """In a forked child: a thread that held the lock does not exist there to release it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
