"""The test vectors: our reader answers what stands in them, and what stands in them is what the
script put into the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.golden.make_vectors import HERE, VECTORS
from tests.golden.our_reader import answer
from tests.golden.plain import sorted_rows


def stored(name: str) -> dict[str, Any]:
    """A vector's expected.json."""
    found: dict[str, Any] = json.loads((HERE / name / "expected.json").read_text())
    return found


@contextmanager
def named(name: str, ask: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{name}, asked {ask}: {error}") from None


@pytest.mark.parametrize("name", VECTORS)
def test_our_reader_answers_what_stands_in_the_vector(name: str) -> None:
    asks = stored(name)["asks"]
    assert asks
    for asked in asks:
        found = answer(HERE / name / "table", asked["ask"])
        with named(name, asked["ask"]):
            assert found == {key: value for key, value in asked.items() if key != "ask"}


@pytest.mark.parametrize(("name", "make"), VECTORS.items())
def test_what_stands_in_the_vector_is_what_was_put_in(name: str, make: Callable[[], Any]) -> None:
    """The rows of the committed file are those of the script's own lists, made anew; names that are
    drawn may come out otherwise."""
    made = make().asks
    asks = stored(name)["asks"]
    assert len(made) == len(asks)
    for put, kept in zip(made, asks, strict=True):
        with named(name, kept["ask"]):
            assert put.get("error") == kept.get("error")
            assert visible(put) == visible(kept)


def visible(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows without what is drawn anew."""
    rows = (
        {key: value for key, value in row.items() if key != "_source"}
        for row in asked.get("rows", ())
    )
    return sorted_rows(rows)


def test_every_vector_that_is_kept_is_known() -> None:
    assert sorted(path.name for path in HERE.iterdir() if path.is_dir()) == sorted(VECTORS)


def test_the_vectors_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) < 1_600_000
