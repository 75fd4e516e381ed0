"""A result in the order of a column: by a click or a key, exactly, and nothing else changes."""

from __future__ import annotations

import pytest

from tests.reader.page.acts import answered, cell, expect, run
from tests.reader.page.pretended import Pretended
from tests.support.browser import Visiting

VALUES = {
    "n": ("9007199254740993", "NULL", "9007199254740992", "-5", "9007199254740994"),
    "d": ("10.5::decimal(9,2)", "NULL", "9.25", "-1.00", "100.00"),
    "f": ("1.5::double", "'nan'::double", "NULL", "-2.0", "1e300"),
    "s": ("'b'", "'a'", "NULL", "'é'", "'Z'"),
    "t": (
        "TIMESTAMP_NS '2026-01-01 00:00:00.000000002'",
        "TIMESTAMP_NS '2026-01-01 00:00:00.000000001'",
        "NULL",
        "TIMESTAMP_NS '1960-01-01'",
        "TIMESTAMP_NS '2027-01-01'",
    ),
    "b": ("true", "false", "NULL", "true", "false"),
}
ASCENDING = {
    "n": "32041",
    "d": "32041",
    "f": "30412",
    "s": "41032",
    "t": "31042",
    "b": "14032",
}
"""The rows, from 0, in the order of each column: null last, NaN before it."""
DESCENDING = {
    "n": "40231",
    "d": "40231",
    "f": "14032",
    "s": "30142",
    "t": "40132",
    "b": "03142",
}


def _sql() -> str:
    rows = [
        f"SELECT {place} AS row, "
        + ", ".join(f"{own[place]} AS {name}" for name, own in VALUES.items())
        for place in range(5)
    ]
    return " UNION ALL ".join(rows) + " ORDER BY row"


def _rows(page: object) -> str:
    return "".join(cell(page, row, 0).inner_text() for row in range(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", VALUES)
def test_a_click_on_a_column_orders_its_rows(visit: Visiting, url: str, name: str) -> None:
    page = visit(url, width=1440).page
    run(page, _sql())
    answered(page)
    assert _rows(page) == "01234"
    head = (
        page.get_by_role("columnheader")
        .filter(has_text=name)
        .filter(has=page.locator(f"[class=name]:text-is('{name}')"))
    )
    for expected, state in (
        (ASCENDING[name], "ascending"),
        (DESCENDING[name], "descending"),
        ("01234", None),
    ):
        head.click()
        if state is None:
            expect(page.locator("[aria-sort]")).to_have_count(0)
        else:
            expect(head).to_have_attribute("aria-sort", state)
        assert _rows(page) == expected
    expect(page.locator("#said")).to_have_text("In the order of the query")


def test_of_columns_of_one_name_the_one_that_was_chosen_orders_the_rows(
    visit: Visiting, url: str
) -> None:
    page = visit(url, width=1440).page
    run(page, "SELECT i AS row, i AS n, (i * 2) % 5 AS n FROM range(5) t(i) ORDER BY i")
    answered(page)
    for expected, state in (("03142", "ascending"), ("24130", "descending")):
        page.get_by_role("columnheader").nth(3).click()
        expect(page.locator("[aria-sort]")).to_have_count(1)
        expect(page.get_by_role("columnheader").nth(3)).to_have_attribute("aria-sort", state)
        assert _rows(page) == expected


def test_the_key_s_orders_by_the_column_of_the_cell_and_the_query_stays(
    visit: Visiting, url: str, gateway: Pretended
) -> None:
    page = visit(url, width=1440).page
    run(page, _sql())
    answered(page)
    asked = len(gateway.asked)
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    assert _rows(page) == ASCENDING["n"]
    expect(page.get_by_role("grid")).to_be_focused()
    expect(page.locator("#said")).to_have_text("In the order of n, ascending")
    page.locator("#tab-chart").click()
    page.locator("#tab-table").click()
    assert _rows(page) == ASCENDING["n"]
    assert len(gateway.asked) == asked, "nothing is asked again"
    run(page, _sql())
    answered(page)
    assert _rows(page) == "01234"
