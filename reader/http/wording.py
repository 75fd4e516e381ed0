"""What is wrong with a request, in the gateway's words: validation finds it, and its sentences name
neither the body nor the key that they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NOT_SENT_AS_JSON = (
    "the body is not sent as JSON: send it with the header Content-Type: application/json"
)

_PLACES = {"body": "key", "query": "parameter", "path": "part", "header": "header"}


def is_not_sent_as_json(errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the body was not even read, because its Content-Type is another one."""
    return any(
        tuple(one["loc"]) == ("body",) and isinstance(one.get("input"), bytes) for one in errors
    )


def sentence(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first thing that validation found, as a sentence.

    Each place begins with the part of the request.
    """
    # Of a value that may have several forms each form complains: the one that came deepest into it
    # was meant.
    first = max(errors, key=lambda one: len(one["loc"]))
    part, *inside = first["loc"]
    if first["type"] == "json_invalid":
        where = f", at character {inside[0] + 1}" if inside else ""
        return f"the body is no JSON: {first['ctx']['error']}{where}"
    if not inside:
        found = "empty" if first["type"] == "missing" else "other JSON"
        return f'the {part} is {found}, expected an object such as {{"sql": "select 1"}}'
    named = f"{_PLACES[part]} {inside[0]!r}"
    if first["type"] == "missing":
        return f"the {part} lacks the {named}"
    if first["type"] == "extra_forbidden":
        return (
            f"the {part} has the {named}, which is not known here; GET /docs shows those that are"
        )
    said = str(first["msg"])
    return f"the {part}'s {named} is not as expected: {said[:1].lower()}{said[1:]}"
