"""The reference pages that are written from the program: its verbs, and the gateway's routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock

METHODS = ("get", "post", "put", "patch", "delete")


def cli() -> str:
    """Every verb with its arguments and options, from the program's own help."""
    from blockstore.cli import main, rooms, verbs

    app = main._app()
    for source in (verbs, rooms):
        for verb in source.VERBS:
            app.command(source.load(verb), name=verb)
    # The usage names the module that Python runs, which is mkdocs here.
    text: str = app.generate_docs().replace(" -m mkdocs", "")
    _, begin, rest = text.partition("\n## blockstore ")
    text = (begin + rest).strip().replace("## blockstore ", "## ")
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\[", "["), text)


def http() -> str:
    """Every route of the gateway, from its OpenAPI document."""
    document = openapi()
    routes = {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in METHODS
    }
    everywhere = set.intersection(*(set(_answers(route)) for route in routes.values()))
    parts = [document["info"]["description"], "## Statuses of every route"]
    parts += _table(("Status", "Meaning"), sorted(everywhere))
    for title, operation in routes.items():
        parts += _route(document, title, operation, everywhere)
    return "\n\n".join(parts)


def openapi() -> dict[str, Any]:
    """The document that a gateway serves at ``/openapi.json``."""
    from fastapi import FastAPI

    from blockstore.reader.http.app import application
    from blockstore.reader.settings.values import HttpSettings
    from blockstore.service.listening import Listening

    gateway = MagicMock()
    gateway.settings.http = HttpSettings(listening=Listening(host="127.0.0.1", port=0))
    app: Any = application(gateway)
    while not isinstance(app, FastAPI):
        app = getattr(app, "app", None) or app._app
    found: dict[str, Any] = app.openapi()
    return found


def _route(
    document: dict[str, Any], title: str, operation: dict[str, Any], known: set[tuple[str, str]]
) -> list[str]:
    about = operation.get("description", operation.get("summary", ""))
    parts = [f"## `{title}`", " ".join(about.split())]
    parameters = [
        (f"`{one['name']}`", one["in"], " ".join(one.get("description", "").split()))
        for one in operation.get("parameters", ())
    ]
    parts += _table(("Parameter", "In", "Meaning"), parameters)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"Body: `{media}`")
        parts += _table(("Field", "Type", ""), _fields(document, content.get("schema", {})))
    own = [answer for answer in _answers(operation) if answer not in known]
    return parts + _table(("Status", "Meaning"), own)


def _answers(operation: dict[str, Any]) -> list[tuple[str, str]]:
    return [(status, one.get("description", "")) for status, one in operation["responses"].items()]


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    name = schema.get("$ref", "").rpartition("/")[2]
    known = document.get("components", {}).get("schemas", {}).get(name, {})
    return [
        (f"`{field}`", _kind(one), "required" if field in known.get("required", ()) else "")
        for field, one in known.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    return str(schema.get("type", ""))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [[cell.replace("|", "&#124;") for cell in line] for line in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
