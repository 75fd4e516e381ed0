"""SQL finds the texts that plain Python finds, given as parameters or written in the SQL, whatever
they end in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.local import LocalBucket
from blockstore.format.definition import Definition
from blockstore.reader.query import Engine
from blockstore.world import World
from tests.blockstore.scan.tables import Lake
from tests.reader.query.lakes import snapshot_of
from tests.support.examples import few
from tests.support.odd_texts import LEAVES, meets, odd_texts, written

BLOCKS: list[list[str | None]] = [
    ["ab\0\0"],
    ["ab\0"],
    ["ab", "ab\0", "ab\0\0\0"],
    ["\0"],
    ["", None],
    ["\0a", "\0\0"],
    ["e\u0301", "é"],
    ["\U0001f600", "\uffff"],
    ["\U0010ffff" * 70],
    ["a" * 63 + "\0", "a" * 64, "a" * 65],
    ["a" * 64 + "\0"],
    ["a" * 64 + "\0b", "a" * 66],
    ["é" * 64 + "\0"],
    ["\ud7ff" * 65],
    ["abcdefgh\0", "abcdefgh", "abcdefghi"],
    ["abcdefghijkl\0", "abcdefghijkl"],
    ["it's\0", "100%\0", "a\\b"],
]
STORED = [text for block in BLOCKS for text in block]
TEXTS = [text for text in STORED if text is not None]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = Path(tmp_path_factory.mktemp("texts"))
    schema = pa.schema([("s", pa.string()), ("raw", pa.binary()), ("many", pa.list_(pa.string()))])
    made = Lake(
        LocalBucket(str(folder / "t"), World.manual().clock, durable=False),
        Definition.create(schema, sort_by=["s"]),
    )
    for texts in BLOCKS:
        made.append(
            [
                {"s": text, "raw": None if text is None else text.encode(), "many": [text]}
                for text in texts
            ],
            labels={} if texts[0] is None else {"label": texts[0]},
        )
    return Engine({"t": snapshot_of(made)}, world=World.manual())


def asked(engine: Engine, sql: str, parameters: Any = None) -> Counter[str | None]:
    return Counter(engine.query(sql, parameters).read_all()["s"].to_pylist())


def in_sql(text: str) -> str:
    """The text as SQL can hold it, which has no NUL."""
    parts = ["'" + part.replace("'", "''") + "'" for part in text.split("\0")]
    return "(" + " || chr(0) || ".join(parts) + ")"


@settings(max_examples=few(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(LEAVES),
    st.lists(st.one_of(odd_texts(), st.sampled_from(TEXTS)), min_size=2, max_size=2),
    st.sampled_from(["s", "raw", "many[1]"]),
)
def test_a_condition_finds_what_plain_python_finds(
    engine: Engine, leaf: str, values: list[str], column: str
) -> None:
    expected = Counter(text for text in STORED if meets(text, leaf, values))
    given_values: list[Any] = [value.encode() for value in values] if column == "raw" else values
    used = given_values[: 2 if leaf.endswith(("IN", "BETWEEN")) else 1]
    bound = written(column, leaf, ["$1", "$2"])
    assert asked(engine, f"SELECT s FROM t WHERE {bound}", used) == expected
    if column != "raw":
        constant = written(column, leaf, list(map(in_sql, values)))
        assert asked(engine, f"SELECT s FROM t WHERE {constant}") == expected


@settings(max_examples=few(60), deadline=None)
@given(st.one_of(odd_texts(), st.sampled_from(TEXTS), st.sampled_from(["ab\0", "a", "abcdefgh"])))
def test_a_prefix_finds_what_plain_python_finds(engine: Engine, prefix: str) -> None:
    expected = Counter(text for text in TEXTS if text.startswith(prefix))
    assert asked(engine, "SELECT s FROM t WHERE starts_with(s, $1)", [prefix]) == expected
    if not set("%_\\") & set(prefix):
        assert asked(engine, "SELECT s FROM t WHERE s LIKE $1", [prefix + "%"]) == expected


def test_order_groups_and_extremes_are_those_of_plain_python(engine: Engine) -> None:
    ordered = (
        engine.query("SELECT s FROM t WHERE s IS NOT NULL ORDER BY s").read_all()["s"].to_pylist()
    )
    assert ordered == sorted(TEXTS)
    groups = engine.query("SELECT s, count(*) AS n FROM t GROUP BY s").read_all().to_pylist()
    assert {row["s"]: row["n"] for row in groups} == Counter(STORED)
    (ends,) = engine.query("SELECT min(s) AS low, max(s) AS high FROM t").read_all().to_pylist()
    assert (ends["low"], ends["high"]) == (min(TEXTS), max(TEXTS))
    joined = asked(engine, "SELECT t.s FROM t JOIN t AS u ON t.s = u.s AND t.raw = u.raw")
    assert joined == Counter({text: count * count for text, count in Counter(TEXTS).items()})


@pytest.mark.parametrize("texts", [block for block in BLOCKS if block[0] is not None])
def test_a_label_is_found_by_its_text(engine: Engine, texts: list[str]) -> None:
    assert asked(engine, "SELECT s FROM t WHERE label = $1", texts[:1]) == Counter(texts)
