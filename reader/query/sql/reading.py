"""The columns of each table that a query can read: those of remote chunks that must be fetched.

Rule: a column may be read although it is not needed, never the other way round. So every text in
the tree counts as a name, wherever it is: a column that is named anywhere is read from every table
that has it. What reads columns without naming them reads all of them:

- a star, COLUMNS, and a row as a value: all columns of the tables that they are over;
- columns renamed by their position, NATURAL JOIN, PIVOT, SUMMARIZE and ``#1``.

The view of a table raises an error where another column of it is read (``views.py``): an oversight
here makes a query slower, and its rows are never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from blockstore.reader.query.sql.allowed import QUERY_NODES
from blockstore.reader.query.sql.hidden import VIEW
from blockstore.reader.query.sql.statement import GIVEN, Node, Statement, walk
from blockstore.reader.tables.names import folded


@dataclass(frozen=True, slots=True)
class Named:
    """The names in a query, folded."""

    names: frozenset[str]

    def has(self, column: str) -> bool:
        """Whether the query names the column."""
        return folded(column) in self.names


def columns_read(statement: Statement) -> Mapping[str, Named | None]:
    """For each view that the statement reads (``hidden.py``), the names of its columns that are
    read; None: all."""
    look = _Look()
    look.visit(statement.root, None)
    named = Named(frozenset(_texts(statement.root)))
    return {
        view: None if look.everything or view in look.complete else named for view in look.views
    }


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield folded(value)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)
    elif isinstance(value, dict):
        for child in value.values():
            yield from _texts(child)


@dataclass(slots=True)
class _Place:
    """One use of a table in a FROM."""

    alias: str
    view: str


@dataclass(slots=True)
class _Look:
    """One pass over a tree: what reads columns without naming them."""

    views: set[str] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)
    """The views of which all columns are read."""
    everything: bool = False
    _places: list[_Place] = field(default_factory=list)
    """Of the FROM clauses around the visited node, the nearest last."""

    def visit(self, value: object, own: list[_Place] | None) -> None:
        """Look over ``value``; ``own`` are the tables of its FROM."""
        if isinstance(value, list):
            for child in value:
                self.visit(child, own)
            return
        if not isinstance(value, dict):
            return
        if value.get("type") == "SELECT_NODE":
            self._select(value)
            return
        if value.get("type") == "SHOW_REF" and value.get("show_type") == "DESCRIBE":
            # It shows names and types, which every view has.
            self._note_views(value)
            return
        self._note(value, own or [])
        for key, child in value.items():
            if key == "modifiers" and value.get("type") in QUERY_NODES:
                child = [_without_all(modifier) for modifier in child]
            self.visit(child, own)

    def _select(self, node: Node) -> None:
        own: list[_Place] = []
        _collect(node.get("from_table", {}), own)
        outer = len(self._places)
        self._places += own
        for key, child in node.items():
            if key == "modifiers":
                child = [_without_all(modifier) for modifier in child]
            self.visit(child, own)
        del self._places[outer:]

    def _note(self, node: Node, own: list[_Place]) -> None:
        kind = node.get("type")
        if kind == "BASE_TABLE" and GIVEN in node:
            self.views.add(_view(node))
            if node.get("column_name_alias"):
                self.complete.add(_view(node))
        elif kind in ("PIVOT", "SHOW_REF", "POSITIONAL_REFERENCE") or (
            kind == "JOIN" and node.get("ref_type") == "NATURAL"
        ):
            self.everything = True
        elif node.get("class") == "STAR":
            relation = folded(str(node.get("relation_name") or ""))
            self._read_all([one for one in own if relation in ("", one.alias)])
            if relation:
                self._read_all(self._named(relation))
        elif node.get("class") == "COLUMN_REF":
            self._read_all(self._named(folded(str(node["column_names"][-1]))))
        elif node.get("class") in ("FUNCTION", "WINDOW"):
            # A method: what precedes the name of the function may be a row.
            before = [
                str(node.get("schema") or ""),
                *node.get("qualified_name", {}).get("path", ())[-2:-1],
            ]
            for alias in map(folded, map(str, before)):
                self._read_all(self._named(alias))

    def _named(self, alias: str) -> list[_Place]:
        return [place for place in self._places if place.alias == alias]

    def _read_all(self, places: list[_Place]) -> None:
        self.complete.update(place.view for place in places)

    def _note_views(self, node: Node) -> None:
        self.views.update(
            _view(one) for one in walk(node) if one.get("type") == "BASE_TABLE" and GIVEN in one
        )


def _collect(ref: Node, places: list[_Place]) -> None:
    """Add the tables of a FROM, without those of its subqueries."""
    if ref.get("type") == "BASE_TABLE" and GIVEN in ref:
        alias = folded(str(ref.get("alias") or ref["table_name"]))
        places.append(_Place(alias, _view(ref)))
    elif ref.get("type") == "JOIN":
        _collect(ref["left"], places)
        _collect(ref["right"], places)


def _without_all(modifier: Node) -> Node:
    """A modifier without ORDER BY ALL: a star in the tree, which means the result's columns."""
    orders = modifier.get("orders")
    if not orders:
        return modifier
    kept = [one for one in orders if not _is_plain_star(one.get("expression"))]
    return {**modifier, "orders": kept}


def _is_plain_star(expression: object) -> bool:
    return (
        isinstance(expression, dict)
        and expression.get("class") == "STAR"
        and not expression.get("expr")
        and not expression.get("relation_name")
    )


def _view(node: Node) -> str:
    return str(node.get(VIEW, node[GIVEN]))
