"""``/docs``: the OpenAPI document as one HTML page without scripts and without other files."""

from __future__ import annotations

from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_METHODS = ("get", "post", "put", "patch", "delete")
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h2 { border-top: 1px solid #8886; padding-top: 1rem; font-size: 1.1rem; }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .2rem .6rem .2rem 0; vertical-align: top; }
.method { font-weight: 700; }
"""


def style(_: Request) -> Response:
    """The page's style sheet: the content security policy forbids inline styles."""
    return Response(_STYLE, media_type="text/css")


def docs(request: Request) -> Response:
    """The page."""
    document = request.app.openapi()
    routes = [
        _route(document, path, method, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method in _METHODS
    ]
    title = escape(document["info"]["title"])
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<h1>{title}</h1><p>{escape(document['info'].get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{''.join(routes)}</body></html>"
    )


def _route(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [
        (
            f'<section><h2><span class="method">{method.upper()}</span> '
            f"<code>{escape(path)}</code></h2>"
        ),
        f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>",
    ]
    parameters = [
        (one["name"], one["in"], one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(_table(("Parameter", "In", ""), parameters))
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(
            "<p>Body: "
            f"<code>{escape(media)}</code></p>{_fields(document, content.get('schema', {}))}"
        )
    answers = [
        (status, one.get("description", ""), "") for status, one in operation["responses"].items()
    ]
    return "".join([*parts, _table(("Status", "", ""), answers), "</section>"])


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    known = document.get("components", {}).get("schemas", {}).get(name, {})
    rows = [
        (field, _kind(one), "required" if field in known.get("required", ()) else "")
        for field, one in known.get("properties", {}).items()
    ]
    return _table(("Field", "Type", ""), rows) if rows else ""


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    return " | ".join(schema["enum"]) if "enum" in schema else str(schema.get("type", ""))


def _table(head: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    titles = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
