"""Reading parts of the JSON that a client sends. Pure; each raises Invalid for another shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockstore.errors import Invalid

_LONG = 2**63


def object_of(value: object, what: str) -> Mapping[str, Any]:
    """Return an object; ``what`` names it."""
    if not isinstance(value, dict):
        raise Invalid(f"{what} is no JSON object")
    return value


def objects_of(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a list."""
    found = holder.get(name)
    if not isinstance(found, list):
        raise Invalid(f"{name} is no list")
    return [object_of(one, f"an element of {name}") for one in found]


def list_of(holder: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list that may be left out, which is an empty one."""
    found = holder.get(name)
    if not isinstance(found, list | None):
        raise Invalid(f"{name} is no list")
    return found or []


def number_of(holder: Mapping[str, Any], name: str) -> int:
    """Return an int64 that is not negative."""
    value = holder.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LONG:
        raise Invalid(f"{name} is {str(value)[:100]!r}, expected a number from 0, below 2**63")
    return value


def text_of(holder: Mapping[str, Any], name: str) -> str:
    """Return a text that is not empty."""
    value = holder.get(name)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{name} is {str(value)[:100]!r}, expected a text")
    return value
