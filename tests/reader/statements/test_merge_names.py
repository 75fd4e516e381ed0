"""Plain names in a MERGE: which get the name of their side, and which stay as they are."""

from __future__ import annotations

import pytest

from blockstore.reader.statements.clauses import Merge
from blockstore.reader.statements.merge_names import resolved
from blockstore.reader.statements.reading import read_dml


def values(expression: str, *, when: str = "NOT MATCHED") -> str:
    """What an expression of a clause becomes; the table has k, a and date, the source k, a and
    b."""
    act = "INSERT (a) VALUES ({})" if when == "NOT MATCHED" else "UPDATE SET a = {}"
    using = "USING (k)" if when == "MATCHED" else "ON t.k = s.k"
    text = f"MERGE INTO t USING s {using} WHEN {when} THEN {act.format(expression)}"
    dml = read_dml(text)
    assert isinstance(dml, Merge)
    (clause,) = resolved(dml, ["k", "a", "date"], '"s"', lambda: ["k", "a", "b"]).clauses
    pieces = clause.values or tuple(one.value for one in clause.assignments or ())
    return pieces[0].text


@pytest.mark.parametrize(
    ("expression", "becomes"),
    [
        ("a", '"s"."a"'),
        ('"a" + A', '"s"."a" + "s"."A"'),
        ("abs(a) -- a\n + k", 'abs("s"."a") -- a\n + "s"."k"'),
        ("CASE WHEN a > 1 THEN k END", 'CASE WHEN "s"."a" > 1 THEN "s"."k" END'),
        ("a::double", '"s"."a"::double'),
        ("a + ((SELECT max(a) FROM s)) * k", '"s"."a" + ((SELECT max(a) FROM s)) * "s"."k"'),
        ("a IN (FROM s) AND (k)", '"s"."a" IN (FROM s) AND ("s"."k")'),
    ],
)
def test_a_name_that_both_sides_have_gets_its_side(expression: str, becomes: str) -> None:
    assert values(expression) == becomes
    assert values(expression, when="NOT MATCHED BY SOURCE") == becomes.replace('"s"', '"t"')


@pytest.mark.parametrize(
    "expression",
    [
        "b",
        "date",
        "s.a + s.k",
        "'a'",
        "a(1)",
        "DATE '2026-01-01'",
        "CAST(b AS a)",
        "(SELECT max(a) FROM s)",
        "list_transform([1], lambda a: a + k)",
        "{'a': 1}",
        "struct_pack(a := b)",
        "DEFAULT",
    ],
)
def test_other_words_stay_as_they_are(expression: str) -> None:
    assert values(expression) == expression


def test_of_matched_rows_only_what_joins_both_gets_a_side() -> None:
    assert values("a + k", when="MATCHED") == 'a + "t"."k"'
