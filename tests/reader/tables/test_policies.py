"""Policies as values, and what they take out of the tables that a caller reaches."""

from __future__ import annotations

import pytest

from blockstore.errors import Invalid
from blockstore.reader.errors import Restricted, UnknownTable
from blockstore.reader.http.tokens import Caller, Scope, Token
from blockstore.reader.tables.names import Names, covers, listed_in, permits
from blockstore.reader.tables.policies import Policies, Policy, with_user, without

OWN = Policy(name="own", tables=frozenset({"orders", "sales_*"}), rows="tenant = current_user")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rows": None}, "restricts nothing"),
        ({"tables": frozenset()}, "names no tables"),
        ({"tables": frozenset({""})}, "names no tables"),
        ({"tables": frozenset({"!a"})}, "begins with !"),
        ({"name": ""}, "has no name"),
        ({"rows": ""}, "is empty"),
        ({"rows": "a = 1; b = 2"}, "2 statements"),
        ({"rows": "a LIKE current_user"}, "in a pattern"),
        ({"rows": "NOT (a = 1 OR b LIKE current_user)"}, "in a pattern"),
        ({"columns": frozenset({"a"}), "hide": frozenset({"b"})}, "columns and hide"),
        ({"columns": frozenset()}, "shows no column"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(fields: dict[str, object], said: str) -> None:
    good: dict[str, object] = {"name": "own", "tables": frozenset({"t"}), "rows": "a = 1"}
    with pytest.raises(Invalid, match=said):
        Policy(**{**good, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table", ["orders", "ORDERS", "Orders", "sales_eu", "Sales_EU", "sales_", "\uff4frders"]
)
def test_a_policy_rather_concerns_a_table_too_many(table: str) -> None:
    assert OWN.concerns(table)
    assert Policies(user="a", policies=(OWN,)).of(table) == (OWN,)
    reach = without(None, (OWN,))
    assert not permits(reach, table)
    with pytest.raises(Restricted, match="restricted for you"):
        Names([table, "other"], reach).find(table)
    assert Names([table, "other"], reach).all == ("other",)
    assert table in Names([table], reach)


def test_what_a_list_of_tables_leaves_out_is_not_there_and_not_restricted() -> None:
    reach = without(frozenset({"sales_*", "open"}), (OWN,))
    with pytest.raises(UnknownTable):
        Names(["orders", "open"], reach).find("orders")
    with pytest.raises(Restricted):
        Names(["sales_eu", "open"], reach).find("sales_eu")
    assert permits(reach, "open")
    assert not permits(reach, "orders")
    # Also where the list names the very table.
    assert not permits(without(frozenset({"orders"}), (OWN,)), "orders")


def test_an_unknown_table_is_no_hint_of_a_restricted_one() -> None:
    with pytest.raises(UnknownTable) as raised:
        Names(["orders", "open"], without(None, (OWN,))).find("order")
    assert raised.value.nearest == ()


def test_without_policies_nothing_changes() -> None:
    assert without(None, ()) is None
    assert without(frozenset({"a"}), ()) == frozenset({"a"})


@pytest.mark.parametrize(
    ("mine", "other", "covered"),
    [
        (None, None, True),
        (None, ("a",), True),
        (("a",), None, False),
        (("*", "!t"), None, False),
        (("*", "!t"), ("a", "b"), True),
        (("*", "!t"), ("t",), False),
        (("*", "!t"), ("T",), False),
        (("*", "!t"), ("*",), False),
        (("*", "!t"), ("*", "!t"), True),
        (("*", "!t"), ("*", "!t", "!u"), True),
        (("*", "!t", "!u"), ("*", "!t"), False),
        (("a*",), ("a*", "!ab"), True),
        (("a*", "!ab"), ("a*",), False),
        (("a*",), ("ab", "ac"), True),
        (("a*",), ("b",), False),
    ],
)
def test_a_list_covers_another_only_for_certain(
    mine: tuple[str, ...] | None, other: tuple[str, ...] | None, covered: bool
) -> None:
    assert covers(mine, other) is covered


def test_lists_are_shown_apart() -> None:
    assert listed_in(None) == (None, [])
    assert listed_in(("*", "!t")) == (None, ["t"])
    assert listed_in(("a*",)) == (["a*"], [])
    assert listed_in(frozenset()) == ([], [])


def test_a_caller_with_policies_reaches_no_more_than_its_list() -> None:
    token = Token(name="a", sha256="0" * 64, scopes=frozenset({Scope.READ}), policies=(OWN,))
    caller = token.caller
    assert caller.tables == frozenset({"*", "!orders", "!sales_*"})
    assert caller.restricted == Policies(user="a", policies=(OWN,))
    assert (caller.knows("orders"), caller.sees("orders")) == (False, True)
    assert (caller.knows("open"), caller.sees("open")) == (True, True)
    assert caller != Token(name="a", sha256="0" * 64, scopes=token.scopes).caller
    assert Caller(name="a", fingerprint="", scopes=frozenset()).restricted is None


def test_an_admin_has_no_policies_and_no_list_takes_out() -> None:
    admin = frozenset({Scope.ADMIN})
    with pytest.raises(Invalid, match="admin and policies"):
        Token(name="a", sha256="0" * 64, scopes=admin, policies=(OWN,))
    with pytest.raises(Invalid, match="begins with !"):
        Token(
            name="a",
            sha256="0" * 64,
            scopes=frozenset({Scope.READ}),
            tables=frozenset({"*", "!orders"}),
        )


@pytest.mark.parametrize("user", ["ann", "o'neil", "' OR '1'='1", "x\n--", "", "%"])
def test_the_name_of_a_caller_is_a_value_and_never_sql(user: str) -> None:
    from sqlglot import exp

    tree = with_user("tenant = current_user OR a = current_user()", user)
    assert [one.this for one in tree.find_all(exp.Literal)] == [user, user]
    assert not list(with_user('tenant = "current_user"', user).find_all(exp.Literal))
