"""Conditions that are stored as text, with the columns that they are about: which they name, which
rows make them false, and their text once columns are renamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.predicate.nodes import Always, And, Column, Node, Or, find_column
from blockstore.predicate.parse import Predicate, syntax_tree

if TYPE_CHECKING:
    from sqlglot import exp


def parse_false(condition: str, schema: pa.Schema) -> Predicate:
    """Return what is true for exactly the rows for which ``condition`` is false; where it is
    unknown it is neither. Raises Invalid as ``parse``."""
    from blockstore.predicate.translate import Translator

    return Predicate(node=Translator(schema).node(syntax_tree(condition), negated=True))


def names_in(condition: str, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of the schema that a condition names, each once."""
    found = (column for _, column in _columns(syntax_tree(condition), schema))
    return tuple(dict.fromkeys(column.name for column in found))


def renamed(condition: str, schema: pa.Schema, names: Mapping[str, str]) -> str:
    """Return the condition's text with columns of the schema under new names.

    Raises Invalid if the text cannot be written with them.
    """
    from sqlglot import exp

    from blockstore.predicate.syntax import Dialect

    tree = syntax_tree(condition)
    meant = [(node, names[one.name]) for node, one in _columns(tree, schema) if one.name in names]
    if not meant:
        return condition
    for node, name in meant:
        node.set("this", exp.to_identifier(name, quoted=True))
    text = tree.sql(dialect=Dialect)
    later = pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema])
    before = _under(parse_false(condition, schema).node, names)
    if parse_false(text, later).node != before:
        raise Invalid(
            f"the condition {condition!r} cannot be written with the new names of its columns: "
            "write it again"
        )
    return text


def _columns(tree: exp.Expression, schema: pa.Schema) -> Iterator[tuple[exp.Expression, Column]]:
    from sqlglot import exp

    for node in list(tree.find_all(exp.Column)):
        found = find_column(schema, node.name)
        if found is not None:
            yield node, found


def _under(node: Node, names: Mapping[str, str]) -> Node:
    if isinstance(node, And | Or):
        return type(node)(tuple(_under(part, names) for part in node.parts))
    if isinstance(node, Always):
        return node
    column = node.column
    return replace(node, column=Column(names.get(column.name, column.name), column.type))
