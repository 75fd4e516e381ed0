"""What requests cost: list prices of S3 Standard, as data.

Source: "Amazon S3 pricing", requests and data retrievals, S3 Standard, US East (N. Virginia), as
published in 2025. Storage and transfer are left out: within a region transfer is free.
"""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

__all__ = ["DOLLARS_PER_THOUSAND", "Kind", "dollars", "kind"]


class Kind(StrEnum):
    """The classes of requests that have a price."""

    WRITE = "PUT, COPY, POST, LIST"
    READ = "GET, HEAD and all others"
    FREE = "DELETE, ABORT"


DOLLARS_PER_THOUSAND = {Kind.WRITE: 0.005, Kind.READ: 0.0004, Kind.FREE: 0.0}
_LISTS = ("list-type", "uploads", "versions", "prefix", "delimiter", "marker")


def kind(method: str, target: str) -> Kind:
    """The class of a request to a path-style address."""
    url = urlsplit(target)
    query = parse_qs(url.query, keep_blank_values=True)
    if method == "DELETE" or (method == "POST" and "delete" in query):
        return Kind.FREE
    if method in ("PUT", "POST"):
        return Kind.WRITE
    in_bucket = "/" not in url.path.strip("/")
    listed = method == "GET" and in_bucket and any(name in query for name in _LISTS)
    return Kind.WRITE if listed else Kind.READ


def dollars(method: str, target: str) -> float:
    """The price of one request."""
    return DOLLARS_PER_THOUSAND[kind(method, target)] / 1_000
