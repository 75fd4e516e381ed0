"""The labels of a stream, as the index's columns hold it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import orjson

__all__ = ["labels_of"]


@lru_cache(maxsize=4096)
def labels_of(stream: str) -> Mapping[str, str]:
    """The labels of a value of the column ``stream``."""
    found: dict[str, str] = orjson.loads(stream)["labels"]
    return found
