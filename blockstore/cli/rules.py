"""The rules of columns as the command line reads and shows them: ``age:check=age < 150``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from blockstore.cli.failure import Usage
from blockstore.cli.output import Cell
from blockstore.format.column import rules_of

_RULES = ("not_null", "max_length", "pattern", "default", "check", "description")
_WORD = re.compile(rf"(.+?):({'|'.join(_RULES)})=(.*)", re.DOTALL)
_FLAGS = {"true": True, "false": False, "": False}


def parse_rules(words: Iterable[str], schema: pa.Schema) -> dict[str, dict[str, object]]:
    """Parse ``column:rule=value`` words; an empty value takes the rule away. ``schema`` has the
    types of the columns that defaults are read as. Raises Usage."""
    found: dict[str, dict[str, object]] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise Usage(
                f"--rule is {word!r}, expected column:rule=value with one of the rules "
                f"{', '.join(_RULES)}"
            )
        column, rule, text = match.groups()
        rules = found.setdefault(column, {})
        if rule in rules:
            raise Usage(f"--rule gives {column}:{rule} twice, expected each rule once")
        rules[rule] = _value(rule, text, column, schema)
    return found


def with_rules(schema: pa.Schema, rules: Mapping[str, Mapping[str, object]]) -> pa.Schema:
    """Return the columns of a new table with these rules. Raises Usage for one that is not
    there."""
    strange = next((name for name in rules if name not in schema.names), None)
    if strange is not None:
        raise Usage(
            f"--rule names column {strange!r}, which the schema does not have: "
            f"{', '.join(schema.names)}"
        )
    fields = []
    for field in schema:
        kept = rules_of(field)
        is_needed = kept.not_null or not field.nullable
        changes = {"not_null": is_needed, **rules.get(field.name, {})}
        changed = kept.changed(changes, field.name)
        fields.append(changed.on(field).with_nullable(not changed.not_null))
    return pa.schema(fields, schema.metadata)


def rules_json(field: pa.Field) -> dict[str, Cell]:
    """Return the rules that a column has, but not null, for programs."""
    rules = rules_of(field)
    found: dict[str, Any] = {
        "kind": rules.type,
        "max_length": None if rules.max_length is None else int(rules.max_length),
        "pattern": rules.pattern,
        "default": None if rules.default is None else json.loads(rules.default),
        "check": rules.check,
        "description": rules.description,
    }
    return {name: value for name, value in found.items() if value is not None}


def rules_text(field: pa.Field) -> str:
    """Return the rules that a column has, for people."""
    rules = rules_of(field)
    parts = ["not null" if rules.not_null else ""]
    parts += [
        f"{name} {text}"
        for name, text in (
            ("max_length", rules.max_length),
            ("pattern", rules.pattern),
            ("default", rules.default),
            ("check", rules.check),
        )
        if text is not None
    ]
    return "; ".join(part for part in parts if part)


def _value(rule: str, text: str, column: str, schema: pa.Schema) -> object:
    if rule == "not_null":
        if text not in _FLAGS:
            raise Usage(f"--rule {column}:not_null is {text!r}, expected true or false")
        return _FLAGS[text]
    if not text:
        return None
    if rule == "max_length":
        if not (text.isascii() and text.isdigit()):
            raise Usage(f"--rule {column}:max_length is {text!r}, expected a number of characters")
        return int(text)
    if rule == "default":
        at = schema.get_field_index(column)
        return text if at >= 0 and pa.types.is_string(schema.field(at).type) else _plain(text)
    return text


def _plain(text: str) -> object:
    """A number or a boolean; anything else is a text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
