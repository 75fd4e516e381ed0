"""The rules of a table's columns, checked on definitions and on rows.

Rules:
- Every new row is checked once, where it is cast (``casting.py``), whichever door it came through.
  Rows of stored blocks are not checked again.
- A null meets every rule but ``not null``. A check refuses a row for which it is *false*; unknown
  passes, as in SQL.
- Lengths are numbers of Unicode characters. A pattern (RE2) matches the whole text.
- Rules that make no sense are refused when a table is created or altered.
- A column without rules costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.column import ENTITY, FILE, HANDLE, LINK, Rules, rules_of
from blockstore.format.defaults import scalar_of
from blockstore.format.fields import named
from blockstore.predicate.nodes import FALSE, Column, IsNull
from blockstore.predicate.parse import Predicate
from blockstore.predicate.stored import names_in, parse_false

_SHOWN = 60
_LONGEST_DEFAULT = 4_096
"""Every version of a table has its defaults."""
_ROW = "_blockstore_row"
_URL = r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s\p{Z}\p{C}]+"
_DIGEST = "[0-9a-f]{64}"


class BrokenRule(Invalid):
    """A row that breaks a rule of a column, with its parts for programs."""

    def __init__(self, message: str, *, row: int, column: str, value: str, rule: str) -> None:
        super().__init__(message, row=row)
        self.column = column
        self.value = value
        self.rule = rule


@dataclass(frozen=True)
class Rule(ABC):
    """What the values of one column must meet."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read to judge a row."""
        return (self.column,)

    @property
    def suspects(self) -> Predicate | None:
        """A condition that every row meets which breaks the rule; None: any row may."""
        return None

    @property
    @abstractmethod
    def expected(self) -> str:
        """What the rule wants, as the end of a sentence."""

    @abstractmethod
    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        """Return the place of the first row that breaks the rule; None if all meet it."""

    def found(self, rows: pa.RecordBatch, row: int) -> str:
        """What the columns hold in a row that breaks the rule, as a clause."""
        return f"is {self.value(rows, row)}"

    def value(self, rows: pa.RecordBatch, row: int) -> str:
        """The column's value in a row, shortened."""
        return _shown(rows.column(self.column)[row])

    def refuse(self, rows: pa.RecordBatch, row: int, first_row: int) -> NoReturn:
        """Raise the error for a row; rows count from ``first_row``."""
        raise BrokenRule(
            f"column {self.column!r} {self.found(rows, row)} in row {first_row + row:,} (counted "
            f"from 0), expected {self.expected}: correct the value, or change the rule with alter",
            row=first_row + row,
            column=self.column,
            value=self.value(rows, row),
            rule=self.expected,
        )


@dataclass(frozen=True)
class NotNull(Rule):
    """No null. Rows that come in are checked for it by ``casting.py``, with the time column's."""

    kind: pa.DataType

    @property
    def suspects(self) -> Predicate:
        return Predicate(node=IsNull(Column(self.column, self.kind)))

    @property
    def expected(self) -> str:
        return "a value (not null)"

    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        values = rows.column(self.column)
        return _first(values.is_null()) if values.null_count else None


@dataclass(frozen=True)
class MaxLength(Rule):
    """At most so many characters."""

    limit: int

    @property
    def expected(self) -> str:
        return f"at most {self.limit:,} characters (its max_length)"

    def found(self, rows: pa.RecordBatch, row: int) -> str:
        text = rows.column(self.column)[row].as_py()
        return f"has {len(text):,} characters, {_shown(text)},"

    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        import pyarrow.compute as pc

        texts = rows.column(self.column)
        if (pc.max(pc.binary_length(texts)).as_py() or 0) <= self.limit:
            return None  # no text has more characters than bytes, and bytes are counted quickly
        return _first(pc.greater(pc.utf8_length(texts), self.limit))


@dataclass(frozen=True)
class Matches(Rule):
    """A text that a regular expression matches completely."""

    pattern: str
    meaning: str

    @property
    def expected(self) -> str:
        return self.meaning

    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        import pyarrow.compute as pc

        found = pc.match_substring_regex(rows.column(self.column), pattern=_whole(self.pattern))
        return _first(pc.invert(found))


@dataclass(frozen=True)
class Handle(Rule):
    """A complete handle of a file."""

    @property
    def expected(self) -> str:
        return (
            "a file's id, name, bytes of at least 0 and sha256 of 64 hexadecimal digits, without "
            "nulls"
        )

    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        import pyarrow.compute as pc

        handles = rows.column(self.column)
        parts = {name: pc.struct_field(handles, name) for name in ("id", "name", "bytes", "sha256")}
        good = pc.match_substring_regex(parts["sha256"], pattern=_whole(_DIGEST))
        for other in (
            pc.greater_equal(parts["bytes"], 0),
            pc.not_equal(parts["id"], ""),
            pc.not_equal(parts["name"], ""),
        ):
            good = pc.and_kleene(good, other)
        whole = pc.or_(handles.is_null(), pc.fill_null(good, False))
        return _first(pc.invert(whole))


@dataclass(frozen=True)
class Check(Rule):
    """A condition that is false for no row."""

    text: str
    schema: pa.Schema

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.column, *self._named)))

    @property
    def suspects(self) -> Predicate:
        return self._false

    def prepared(self) -> tuple[str, ...]:
        """Read the text, and return the columns that it names. Raises Invalid."""
        _ = self._false
        return self._named

    @cached_property
    def _named(self) -> tuple[str, ...]:
        return names_in(self.text, self.schema)

    @cached_property
    def _false(self) -> Predicate:
        return parse_false(self.text, self.schema)

    @property
    def expected(self) -> str:
        return f"{self.text} (its check)"

    def found(self, rows: pa.RecordBatch, row: int) -> str:
        others = ", ".join(
            f"{name} = {_shown(rows.column(name)[row])}"
            for name in self._named
            if name != self.column
        )
        return f"is {self.value(rows, row)}" + (f" ({others})" if others else "")

    def first_broken(self, rows: pa.RecordBatch) -> int | None:
        if self._false.node == FALSE:
            return None  # no value of these types
        few, broken = rows.select(list(self.columns)), self._false.expression
        if not few.filter(broken).num_rows:
            return None
        places = pa.array(np.arange(few.num_rows))
        return int(few.append_column(_ROW, places).filter(broken).column(_ROW)[0].as_py())


def rules_on_rows(schema: pa.Schema) -> tuple[Rule, ...]:
    """Return the rules of a schema that rows are checked by, but for nulls. Raises Invalid for
    rules that make no sense."""
    return tuple(
        rule for field in schema for rule in _rules(field, schema) if not isinstance(rule, NotNull)
    )


def new_rules(schema: pa.Schema, before: pa.Schema) -> tuple[Rule, ...]:
    """Return the rules that rows under ``before`` may break: those that it does not have, of
    columns that it has. Columns are the same by their names here."""
    known = {rule for field in before for rule in _rules(field, before)}
    old = {_without_schema(rule) for rule in known}
    return tuple(
        rule
        for field in schema
        if field.name in before.names
        for rule in _rules(field, schema)
        if not _follows(rule, old)
    )


def check_rows(rules: Iterable[Rule], rows: pa.RecordBatch, first_row: int) -> None:
    """Raise BrokenRule for the first row of a batch that breaks one of the rules."""
    if not rows.num_rows:
        return
    broken = [
        (row, place, rule)
        for place, rule in enumerate(rules)
        if (row := rule.first_broken(rows)) is not None
    ]
    if broken:
        row, _, rule = min(broken, key=lambda one: one[:2])
        rule.refuse(rows, row, first_row)


def check_schema(schema: pa.Schema, before: Iterable[pa.Field] = ()) -> None:
    """Raise Invalid for rules that make no sense: for the type of their column, by themselves, or
    for their own default. A default that the table had ``before`` may have any length."""
    kept = {rules_of(field).default for field in before}
    for field in schema:
        _rules(field, schema)
        text = rules_of(field).default
        if text is not None:
            if text not in kept and len(text) > _LONGEST_DEFAULT:
                raise Invalid(
                    f"column {field.name!r} has a default of {len(text):,} characters as JSON, "
                    f"expected at most {_LONGEST_DEFAULT:,}: write long values with the rows"
                )
            _check_default(field, text, schema)


def is_enforced(schema: pa.Schema) -> bool:
    """Return whether some column has a rule that earlier releases do not check."""
    return any(rules_of(field).enforced for field in schema)


def _rules(field: pa.Field, schema: pa.Schema) -> list[Rule]:
    rules = rules_of(field)
    found: list[Rule] = [NotNull(field.name, field.type)] if rules.not_null else []
    _check_type(field, rules)
    if rules.type == FILE:
        found.append(Handle(field.name))
    if rules.type == LINK:
        expected = "an absolute URL such as https://example.org/data (its type is link)"
        found.append(Matches(field.name, _URL, expected))
    if rules.pattern is not None:
        expected = f"a text that {rules.pattern!r} matches completely (its pattern)"
        found.append(Matches(field.name, _regular(field.name, rules.pattern), expected))
    if rules.max_length is not None:
        found.append(MaxLength(field.name, _limit(field.name, rules.max_length)))
    if rules.check is not None:
        found.append(_check(field.name, rules.check, schema))
    return found


def _check_type(field: pa.Field, rules: Rules) -> None:
    name, kind = field.name, field.type
    if rules.type == FILE and not _is_handle(kind):
        raise Invalid(f"column {name!r} is a file of type {kind}, expected {HANDLE}")
    text = pt.is_string(kind)
    for what, given in (
        ("is an entity", rules.type == ENTITY),
        ("is a link", rules.type == LINK),
        ("has a max_length", rules.max_length is not None),
    ):
        if given and not text:
            raise Invalid(f"column {name!r} {what} and has the type {kind}, expected string")
    if rules.type == ENTITY and rules.pattern is None:
        raise Invalid(
            f"column {name!r} is an entity without a pattern, expected one that its identifiers "
            "match"
        )
    if rules.pattern is not None and rules.type != ENTITY:
        raise Invalid(
            f"column {name!r} has a pattern and is not an entity, expected a pattern on entities "
            "only: give the column the type entity"
        )


def _is_handle(kind: pa.DataType) -> bool:
    return pt.is_struct(kind) and [(one.name, one.type) for one in kind.fields] == [
        (one.name, one.type) for one in HANDLE.fields
    ]


def _regular(name: str, pattern: str) -> str:
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern=_whole(pattern))
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"column {name!r} has the pattern {pattern!r}, which is not a regular expression "
            f"({str(error).partition(chr(10))[0]}): correct it"
        ) from None
    return pattern


def _limit(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) < 2**31):
        raise Invalid(
            f"column {name!r} has the max_length {text[:40]!r}, expected a number of characters "
            "from 1"
        )
    return int(text)


def _check(name: str, text: str, schema: pa.Schema) -> Check:
    rule = Check(name, text, schema)
    try:
        named_columns = rule.prepared()
    except Invalid as error:
        raise Invalid(
            f"column {name!r} has a check that cannot be used on columns {named(schema.names)}: "
            f"{error}"
        ) from None
    if not named_columns:
        raise Invalid(
            f"column {name!r} has the check {text!r}, expected a condition on at least one column"
        )
    return rule


def _check_default(field: pa.Field, text: str, schema: pa.Schema) -> None:
    value = scalar_of(text, field)
    row = pa.RecordBatch.from_arrays(
        [
            pa.repeat(value, 1) if one.name == field.name else pa.nulls(1, one.type)
            for one in schema
        ],
        schema=schema,
    )
    for rule in _rules(field, schema):
        if rule.first_broken(row) is not None:
            raise Invalid(
                f"column {field.name!r} has the default {text[:_SHOWN]}, which breaks its own "
                f"rule, expected {rule.expected}: give another default"
            )


def _without_schema(rule: Rule) -> object:
    return (rule.column, rule.text) if isinstance(rule, Check) else rule


def _follows(rule: Rule, old: Iterable[object]) -> bool:
    """Whether rows that meet the ``old`` rules meet this one."""
    if isinstance(rule, MaxLength):
        return any(
            isinstance(one, MaxLength) and one.column == rule.column and one.limit <= rule.limit
            for one in old
        )
    return _without_schema(rule) in set(old)


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def _first(broken: pa.Array) -> int | None:
    """The place of the first true value."""
    import pyarrow.compute as pc

    place = int(pc.index(broken, True).as_py())
    return None if place < 0 else place


def _shown(value: object) -> str:
    from blockstore.format.value_text import plain, value_text

    text = value_text(plain(value) if isinstance(value, pa.Scalar) else value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
