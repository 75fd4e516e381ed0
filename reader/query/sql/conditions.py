"""Which rows of each table a query can use at most: the conditions that prune files before DuckDB
sees them.

Rule: a condition found here may only be weaker than the query, never stronger: a file that it rules
out holds no row that could change the answer. Whatever is not understood is left out, which costs
time and never rows.

- A conjunct of WHERE, or of an inner join's ON, that names one table's columns only, holds for that
  table unless an outer join may keep a row that fails it: it passes to the side whose rows are
  kept, ON to the other side.
- A view that a query reads several times is read under "one condition OR the other".
- A sample, a positional join or a renamed column list hides the table's rows from this reading: no
  condition.
- Names are told apart as DuckDB does, by ``folded``: another rule would take one column or table
  for another.
- Conditions are read by ``blockstore.predicate``, whose logic is SQL's: nulls, and NaN above all
  numbers as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.predicate import Predicate, parse_filters
from blockstore.predicate.nodes import TRUE, Op, conjunction, disjunction
from blockstore.predicate.nodes import Node as Tree
from blockstore.reader.query.sql.constants import Constant, constants_for
from blockstore.reader.query.sql.hidden import VIEW
from blockstore.reader.query.sql.statement import GIVEN, Node, Statement, walk
from blockstore.reader.tables.names import folded

_OPERATORS = {
    "COMPARE_EQUAL": Op.EQ,
    "COMPARE_NOTEQUAL": Op.NE,
    "COMPARE_LESSTHAN": Op.LT,
    "COMPARE_GREATERTHAN": Op.GT,
    "COMPARE_LESSTHANOREQUALTO": Op.LE,
    "COMPARE_GREATERTHANOREQUALTO": Op.GE,
}
_PREFIXES = frozenset({"~~", "starts_with", "prefix", "^@"})


@dataclass(slots=True)
class _Occurrence:
    """One place where a table stands in a FROM, and the conjuncts that hold for its rows there."""

    node: Node
    filters: list[Node]

    @property
    def alias(self) -> str:
        return folded(str(self.node.get("alias") or self.node["table_name"]))


@dataclass(slots=True)
class _From:
    """A FROM clause taken apart."""

    occurrences: list[_Occurrence] = field(default_factory=list)
    merged: set[str] = field(default_factory=set)
    """Columns that USING merges: unqualified, they belong to no single table."""
    natural: bool = False


def conditions(statement: Statement, schemas: Mapping[str, pa.Schema]) -> dict[str, Predicate]:
    """For every view that the statement reads (``hidden.py``), a condition that all rows it can use
    fulfil."""
    found: dict[str, dict[int, Tree]] = {}
    for node in walk(statement.root):
        if node.get("type") == "BASE_TABLE" and GIVEN in node:
            found.setdefault(_view(node), {}).setdefault(id(node), TRUE)
        if node.get("type") == "SELECT_NODE" and "from_table" in node:
            for occurrence, tree in _of_select(node, schemas):
                found.setdefault(_view(occurrence.node), {})[id(occurrence.node)] = tree
    return {
        view: Predicate(node=disjunction(*trees.values()), exact=False)
        for view, trees in found.items()
    }


def _view(node: Node) -> str:
    return str(node.get(VIEW, node[GIVEN]))


def _of_select(node: Node, schemas: Mapping[str, pa.Schema]) -> Iterator[tuple[_Occurrence, Tree]]:
    clause = _From()
    where = [] if "sample" in node else _conjuncts(node.get("where_clause"))
    _take_apart(node["from_table"], where, clause)
    for occurrence in clause.occurrences:
        columns = _Columns.of(occurrence, clause, schemas)
        trees = [
            tree
            for conjunct in occurrence.filters
            if (tree := columns.condition(conjunct)) is not None
        ]
        yield occurrence, conjunction(*trees)


def _conjuncts(condition: Node | None) -> list[Node]:
    if condition is None:
        return []
    if condition.get("type") == "CONJUNCTION_AND":
        return [part for child in condition["children"] for part in _conjuncts(child)]
    return [condition]


def _take_apart(ref: Node, filters: list[Node], clause: _From) -> None:
    """Collect the tables of ``ref``; ``filters`` hold for every row that leaves it."""
    if ref["type"] == "BASE_TABLE":
        if GIVEN in ref and "sample" not in ref and "column_name_alias" not in ref:
            clause.occurrences.append(_Occurrence(ref, filters))
        return
    if ref["type"] != "JOIN":
        return
    clause.merged.update(folded(str(name)) for name in ref.get("using_columns", ()))
    clause.natural = clause.natural or ref.get("ref_type") == "NATURAL"
    left, right = _sides(ref, filters)
    _take_apart(ref["left"], left, clause)
    _take_apart(ref["right"], right, clause)


def _sides(join: Node, filters: list[Node]) -> tuple[list[Node], list[Node]]:
    """What holds for the rows of a join's two sides, given what holds for the join's rows."""
    on = _conjuncts(join.get("condition"))
    form, kind = join.get("ref_type"), join.get("join_type")
    if form == "ASOF":
        # The nearest row on the right is sought before any filter: leaving rows out there changes
        # the match.
        return (filters if kind in ("INNER", "LEFT") else []), []
    if form not in ("REGULAR", "CROSS", "NATURAL"):
        return [], []
    match kind:
        case "INNER":
            return filters + on, filters + on
        case "LEFT":
            return filters, on
        case "RIGHT":
            return on, filters
        case "SEMI":
            return filters + on, on
        case "ANTI":
            return filters, on
        case _:
            return [], []


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of one table as one FROM names them; turns an expression into a condition on
    them, or None."""

    alias: str
    schema: pa.Schema
    spelled: Mapping[str, str]
    unqualified: frozenset[str]

    @classmethod
    def of(
        cls, occurrence: _Occurrence, clause: _From, schemas: Mapping[str, pa.Schema]
    ) -> _Columns:
        schema = schemas[occurrence.node[GIVEN]]
        # Of two names that are one in SQL, DuckDB takes the first.
        spelled = {folded(name): name for name in reversed(schema.names)}
        others: set[str] = set()
        for other in clause.occurrences:
            if other is not occurrence:
                others.update(folded(name) for name in schemas[other.node[GIVEN]].names)
        free = frozenset() if clause.natural else frozenset(spelled) - others - clause.merged
        same_alias = sum(other.alias == occurrence.alias for other in clause.occurrences)
        alias = occurrence.alias if same_alias == 1 else ""
        return cls(alias, schema, spelled, free)

    def condition(self, node: Node, *, negated: bool = False) -> Tree | None:
        """The expression (or its negation) as a condition on this table alone, or None if it is
        none that is understood; a weaker one where only a part of it is."""
        match node.get("class"), node.get("type"):
            case "CONJUNCTION", kind:
                parts = [self.condition(child, negated=negated) for child in node["children"]]
                known = [part for part in parts if part is not None]
                if (kind == "CONJUNCTION_AND") != negated:
                    return conjunction(*known) if known else None
                return disjunction(*known) if len(known) == len(parts) else None
            case "OPERATOR", "OPERATOR_NOT":
                return self.condition(node["children"][0], negated=not negated)
            case "OPERATOR", ("OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL") as kind:
                absent = (kind == "OPERATOR_IS_NULL") != negated
                return self._leaf(node["children"][0], "is null" if absent else "is not null", None)
            case "OPERATOR", "COMPARE_IN":
                return self._one_of(node["children"], negated)
            case "BETWEEN", _:
                return self._between(node, negated)
            case "COMPARISON", kind if kind in _OPERATORS:
                return self._comparison(node, _OPERATORS[kind], negated)
            case "FUNCTION", _ if node.get("function_name") in _PREFIXES and not negated:
                return self._prefix(node)
            case _:
                return None

    def _column(self, node: Node) -> str | None:
        """The table's column that an expression is, spelled as the schema has it."""
        if node.get("class") != "COLUMN_REF":
            return None
        names = [folded(str(part)) for part in node["column_names"]]
        if len(names) == 1:
            return self.spelled.get(names[0]) if names[0] in self.unqualified else None
        if len(names) == 2 and names[0] == self.alias:
            return self.spelled.get(names[1])
        return None

    def _comparison(self, node: Node, op: Op, negated: bool) -> Tree | None:
        left, right = node["left"], node["right"]
        if self._column(left) is None:
            left, right, op = right, left, op.flipped
        return self._compare(left, op.negated if negated else op, right)

    def _between(self, node: Node, negated: bool) -> Tree | None:
        values = self._constants(node["input"], node["lower"], node["upper"])
        if values is None:
            return None
        low = self._leaf(node["input"], Op.LT if negated else Op.GE, values[0])
        high = self._leaf(node["input"], Op.GT if negated else Op.LE, values[1])
        if low is None or high is None:
            return None
        return disjunction(low, high) if negated else conjunction(low, high)

    def _compare(self, column: Node, op: Op, constant: Node) -> Tree | None:
        values = self._constants(column, constant)
        return None if values is None else self._leaf(column, op, values[0])

    def _one_of(self, children: list[Node], negated: bool) -> Tree | None:
        values = self._constants(*children)
        return (
            None
            if values is None
            else self._leaf(children[0], "not in" if negated else "in", values)
        )

    def _constants(self, column: Node, *constants: Node) -> list[Constant] | None:
        """What a condition compares a column with, if that is nothing but constants."""
        name = self._column(column)
        return None if name is None else constants_for(constants, self.schema.field(name).type)

    def _prefix(self, node: Node) -> Tree | None:
        """``LIKE 'prefix%'`` and its kin, where the pattern is nothing but a prefix."""
        if len(node["arguments"]) != 2:
            return None
        column, pattern = (argument["expression"] for argument in node["arguments"])
        found = pattern.get("literal") or {}
        if self._column(column) is None or found.get("kind") != "STRING":
            return None
        text = str(found["text"])
        if node["function_name"] == "~~":
            if not text.endswith("%") or any(character in text[:-1] for character in "%_\\"):
                return None
            text = text[:-1]
        return self._leaf(column, "starts with", text)

    def _leaf(self, column: Node, op: str, value: object) -> Tree | None:
        name = self._column(column)
        if name is None:
            return None
        try:
            return parse_filters([(name, str(op), value)], self.schema).node
        except Invalid:
            # Not comparable with this column by our rules: DuckDB decides what it means, and
            # nothing is pruned.
            return None
