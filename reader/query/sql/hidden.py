"""Hidden columns in SQL: every table has them, a query can name them, and no star shows them.

DuckDB has no such columns. So each use of a table in a query reads a view of its own, with the
hidden columns that are named for that use and no others, and the stars exclude them: the tree of
the query is changed and written as SQL again.

Rules:
- A name refers to the nearest FROM that can have it, as in SQL: a table's hidden column, unless the
  table has a column or a label of that name, which comes first.
- ``*``, ``t.*``, ``COLUMNS(*)`` and the like never show a hidden column of a table; what a subquery
  selects by name is an ordinary column. To EXCLUDE a hidden column is allowed and changes nothing.
- What would read all columns of such a table in another way than by a star is refused: the row as a
  value, a pattern in COLUMNS that matches the hidden name, a NATURAL JOIN of two that have it.
- A query that names no hidden column runs as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.allowed import QUERY_NODES
from blockstore.reader.query.sql.statement import GIVEN, Node, Statement
from blockstore.reader.tables.names import folded
from blockstore.scan.chunk import HIDDEN

VIEW = "given_view"
"""The key of an admitted BASE_TABLE node for the name of the view that it reads."""

_NAMES = frozenset(HIDDEN.names)
_INSTEAD = "select the needed columns by name in a subquery first"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one or more uses of a table in a query read."""

    table: str
    hidden: tuple[str, ...] = ()
    """The hidden columns of the view, in their usual order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The views that a query reads, by their names in its SQL."""

    views: Mapping[str, View]
    changed: bool
    """Whether the tree differs from the text."""


def hide(statement: Statement, schemas: Mapping[str, pa.Schema]) -> Seen:
    """Change the tree in place: each use of a table reads a view with the hidden columns that it
    needs, and no star shows them. ``schemas`` are the visible columns of each table. Raises
    BadSql."""
    look = _Look({table: frozenset(map(folded, schema.names)) for table, schema in schemas.items()})
    look.visit(statement.root, None)
    for scope in look.scopes:
        scope.resolve()
    for scope in look.scopes:
        scope.check()
    names = _Names({*statement.withs, *map(folded, statement.tables)})
    places = [place for scope in look.scopes for place in scope.places]
    views = {names.of(place.view): place.view for place in places}
    changed = [scope.leave_out() for scope in look.scopes]
    for place in places:
        place.read(names.of(place.view))
    return Seen(views=views, changed=any(changed) or any(view.hidden for view in views.values()))


class _Names:
    """Names for views that differ from all tables and WITHs of the query."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._given: dict[View, str] = {}

    def of(self, view: View) -> str:
        if not view.hidden:
            return view.table
        if view not in self._given:
            name = f"_blockstore_{len(self._given)}"
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._given[view] = name
        return self._given[view]


@dataclass(slots=True, eq=False)
class _Place:
    """One use of a table in a FROM."""

    node: Node
    columns: frozenset[str]
    hidden: set[str] = field(default_factory=set)

    @property
    def alias(self) -> str:
        return str(self.node.get("alias") or self.node["table_name"])

    @property
    def view(self) -> View:
        return View(
            table=self.node[GIVEN],
            hidden=tuple(name for name in HIDDEN.names if name in self.hidden),
        )

    def can_have(self, name: str) -> bool:
        """Whether the name is a hidden column here."""
        return name in _NAMES and name not in self.columns

    def read(self, view: str) -> None:
        self.node[VIEW] = view
        if self.hidden:
            self.node.update(alias=self.alias, table_name=view, qualified_name={"path": [view]})


@dataclass(slots=True)
class _Side:
    """One side of a join."""

    places: list[_Place]
    opaque: bool
    """Whether it contains something other than tables, with unknown columns."""


@dataclass(slots=True, eq=False)
class _Scope:
    """One FROM and all expressions over its columns."""

    parent: _Scope | None
    places: list[_Place] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    """The names of other members of the FROM."""
    opaque: bool = False
    stars: list[Node] = field(default_factory=list)
    columns: list[Node] = field(default_factory=list)
    named: list[tuple[str, list[_Place]]] = field(default_factory=list)
    """Names in USING, with the tables that have these columns."""
    natural: list[tuple[_Side, _Side]] = field(default_factory=list)
    rows: list[_Place] = field(default_factory=list)
    """The tables whose rows are used as values."""

    def resolve(self) -> None:
        """Find the hidden columns that the names refer to."""
        for node in self.columns:
            self._column([folded(str(part)) for part in node["column_names"]])
        for name, places in self.named:
            _add(name, places)
        for star in self.stars:
            self._excluded(star)

    def check(self) -> None:
        """Refuse what would show hidden columns in another way than by a star."""
        for place in self.rows:
            if place.hidden:
                raise BadSql(
                    f"the query reads rows of {place.alias} as values and names its hidden column "
                    f"{min(place.hidden)}: {_INSTEAD}"
                )
        for left, right in self.natural:
            mine, theirs = _hidden(left), _hidden(right)
            both = (
                mine & theirs
                or (mine if right.opaque else set())
                or (theirs if left.opaque else set())
            )
            if both:
                raise BadSql(
                    f"the query names the hidden column {min(both)} of a table in a NATURAL JOIN, "
                    "which must not join by it: name the columns with USING or ON"
                )
        shown = {name for place in self.places for name in place.hidden}
        for star in self.stars:
            if not star.get("columns") or _inner_star(star):
                continue
            if (caught := _caught(star.get("expr"), shown)) is not None:
                raise BadSql(
                    f"the pattern in COLUMNS matches {caught}, a hidden column that the query "
                    f"names: {_INSTEAD}"
                )

    def leave_out(self) -> bool:
        """Exclude hidden columns from the stars; return whether a star changed."""
        changed = False
        for star in self.stars:
            changed = self._without_excludes(star) or changed
            if "expr" in star:
                continue
            relation = folded(str(star.get("relation_name", "")))
            entries = [
                {"table": place.alias, "column": name}
                for place in self.places
                for name in sorted(place.hidden)
                if relation in ("", folded(place.alias))
            ]
            if entries:
                star["qualified_exclude_list"] = [*star.get("qualified_exclude_list", ()), *entries]
                changed = True
        return changed

    def _column(self, parts: list[str]) -> None:
        if len(parts) == 1:
            self._unqualified(parts[0])
        elif parts[-1] in _NAMES:
            scope: _Scope | None = self
            while scope is not None:
                found = [place for place in scope.places if folded(place.alias) == parts[-2]]
                _add(parts[-1], found)
                if found or parts[-2] in scope.others:
                    return
                scope = scope.parent

    def _unqualified(self, name: str) -> None:
        scope: _Scope | None = self
        while scope is not None:
            if any(name in place.columns for place in scope.places):
                return
            if name in _NAMES and scope.places:
                _add(name, scope.places)
                return
            rows = [place for place in scope.places if folded(place.alias) == name]
            self.rows += rows
            if rows:
                return
            scope = scope.parent

    def _excluded(self, star: Node) -> None:
        """If a name in EXCLUDE may also be a subquery's column, add the hidden column to the tables
        next to it, so that it can be excluded."""
        for name in star.get("exclude_list", ()):
            if folded(str(name)) in _NAMES and not self._means_nothing(star, folded(str(name))):
                _add(folded(str(name)), self._read_by(star))

    def _without_excludes(self, star: Node) -> bool:
        """Remove from EXCLUDE what no star shows."""
        plain, qualified = star.get("exclude_list", []), star.get("qualified_exclude_list", [])
        kept = [name for name in plain if not self._means_nothing(star, folded(str(name)))]
        left = [one for one in qualified if not self._names_hidden(one)]
        if len(kept) == len(plain) and len(left) == len(qualified):
            return False
        star["exclude_list"], star["qualified_exclude_list"] = kept, left
        return True

    def _means_nothing(self, star: Node, name: str) -> bool:
        places = self._read_by(star)
        known = not self.opaque or "relation_name" in star
        return known and bool(places) and all(place.can_have(name) for place in places)

    def _names_hidden(self, entry: Node) -> bool:
        table, name = folded(str(entry.get("table", ""))), folded(str(entry.get("column", "")))
        return any(folded(place.alias) == table and place.can_have(name) for place in self.places)

    def _read_by(self, star: Node) -> list[_Place]:
        relation = folded(str(star.get("relation_name", "")))
        return [place for place in self.places if relation in ("", folded(place.alias))]


class _Look:
    """One pass over a tree: its scopes and the content of each."""

    def __init__(self, columns: Mapping[str, frozenset[str]]) -> None:
        self._columns = columns
        self.scopes: list[_Scope] = []

    def visit(self, value: object, scope: _Scope | None) -> None:
        """Look over ``value``, whose names mean what ``scope`` has."""
        if isinstance(value, list):
            for child in value:
                self.visit(child, scope)
        elif isinstance(value, dict):
            if value.get("type") == "SELECT_NODE":
                self._select(value, scope)
                return
            if scope is not None:
                self._note(value, scope)
            for key, child in value.items():
                # What a set operation is ordered by are columns of its answer.
                if key != "modifiers" or value.get("type") not in QUERY_NODES:
                    self.visit(child, scope)

    def _note(self, node: Node, scope: _Scope) -> None:
        if node.get("class") == "STAR":
            scope.stars.append(node)
        elif node.get("class") == "COLUMN_REF":
            scope.columns.append(node)

    def _select(self, node: Node, parent: _Scope | None) -> None:
        self.visit(node.get("cte_map"), parent)
        scope = self._scope(parent)
        self._from(node.get("from_table", {}), scope)
        for key, child in node.items():
            if key == "modifiers":
                self._modifiers(child, scope)
            elif key not in ("cte_map", "from_table"):
                self.visit(child, scope)

    def _modifiers(self, modifiers: list[Node], scope: _Scope) -> None:
        for modifier in modifiers:
            for key, child in modifier.items():
                for one in child if key == "orders" else (child,):
                    # ORDER BY ALL is a star in the tree and refers to the result's columns.
                    if key != "orders" or not _is_plain_star(one.get("expression")):
                        self.visit(one, scope)

    def _from(self, ref: Node, scope: _Scope) -> _Side:
        """Collect the members of a FROM; return them as one side of a join."""
        kind = ref.get("type")
        if kind == "BASE_TABLE" and GIVEN in ref:
            place = _Place(ref, self._columns[ref[GIVEN]])
            scope.places.append(place)
            self.visit(ref.get("sample"), scope)
            return _Side([place], opaque=False)
        if kind == "JOIN":
            return self._join(ref, scope)
        if kind == "PIVOT":
            own = self._scope(scope)
            self._from(ref["source"], own)
            own.named += [(folded(str(name)), own.places) for name in ref.get("groups", ())]
            self.visit([child for key, child in ref.items() if key != "source"], own)
        else:
            self.visit([child for key, child in ref.items() if key != "alias"], scope)
        if kind != "EMPTY":
            scope.opaque = True
            scope.others.add(folded(str(ref.get("alias") or ref.get("table_name", ""))))
        return _Side([], opaque=kind != "EMPTY")

    def _join(self, ref: Node, scope: _Scope) -> _Side:
        left = self._from(ref["left"], scope)
        # The right side of a semi join is visible only in its condition.
        over = self._scope(scope) if ref.get("join_type") in ("SEMI", "ANTI") else scope
        right = self._from(ref["right"], over)
        self.visit([child for key, child in ref.items() if key not in ("left", "right")], over)
        both = _Side([*left.places, *right.places], opaque=left.opaque or right.opaque)
        scope.named += [(folded(str(name)), both.places) for name in ref.get("using_columns", ())]
        if ref.get("ref_type") == "NATURAL":
            scope.natural.append((left, right))
        return both if over is scope else left

    def _scope(self, parent: _Scope | None) -> _Scope:
        scope = _Scope(parent)
        self.scopes.append(scope)
        return scope


def _add(name: str, places: Iterable[_Place]) -> None:
    for place in places:
        if place.can_have(name):
            place.hidden.add(name)


def _hidden(side: _Side) -> set[str]:
    return {name for place in side.places for name in place.hidden}


def _is_plain_star(expression: Any) -> bool:
    return (
        isinstance(expression, dict)
        and expression.get("class") == "STAR"
        and not expression.keys()
        & {"expr", "exclude_list", "qualified_exclude_list", "replace_list"}
    )


def _inner_star(star: Node) -> bool:
    """Whether COLUMNS selects from a star inside it, as with a lambda."""
    expression = star.get("expr")
    arguments = expression.get("arguments", ()) if isinstance(expression, dict) else ()
    return expression is None or any(
        isinstance(one, dict) and one.get("expression", {}).get("class") == "STAR"
        for one in arguments
    )


def _caught(pattern: Any, names: Iterable[str]) -> str | None:
    """The first of these names that a pattern in COLUMNS shows; an unknown or invalid pattern may
    show all."""
    known = isinstance(pattern, dict) and pattern.get("literal", {}).get("kind") == "STRING"
    if isinstance(pattern, dict) and pattern.get("function_name") == "list_value":
        return None
    for name in sorted(names):
        if not known or _matches(str(pattern["literal"]["text"]), name):
            return name
    return None


def _matches(pattern: str, name: str) -> bool:
    """Whether a caller's pattern matches, as it does in DuckDB: both use RE2, whose time is linear.
    Python's own expressions may take hours, and hold all threads meanwhile."""
    import pyarrow.compute as pc

    try:
        found = pc.match_substring_regex(pa.scalar(name), pattern, ignore_case=True)
    except pa.ArrowInvalid:  # not an expression of RE2: DuckDB refuses it, too
        return True
    return bool(found.as_py())
