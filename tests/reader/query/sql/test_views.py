"""Views over few files and over many answer alike, whatever the tables are called; nobody reads the
lists but the views."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blockstore.reader.errors import BadSql
from blockstore.reader.query import Engine
from blockstore.reader.query.sql import views as module
from tests.reader.query.lakes import lake, snapshot_of

NAMES = ("t", "Tä 'x' \"y\"", "files 0 of t")
QUESTIONS = (
    "SELECT count(*), count(n), sum(n), count(cluster) FROM {0}",
    "SELECT * EXCLUDE (f) FROM {0} WHERE n > 3 ORDER BY ALL",
    "SELECT _source, n FROM {1} ORDER BY ALL",
    "SELECT * EXCLUDE (f), _source, _row_id, _version FROM {1} WHERE n <= -12 ORDER BY ALL",
    (
        "SELECT a.n, count(*) FROM {0} a JOIN {1} b USING (n) JOIN {2} c USING (n) GROUP BY ALL ORDER "
        "BY ALL"
    ),
    "WITH x AS (SELECT n FROM {2}) SELECT count(*) FROM x, {0}",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine({name: snapshot_of(lake()) for name in NAMES}) as engine:
        yield engine


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("question", QUESTIONS)
def test_lists_as_values_answer_as_lists_in_the_text_do(
    engine: Engine, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = question.format(*map(quoted, NAMES))
    in_the_text = engine.query(sql).read_all()
    monkeypatch.setattr(module, "_FEW_PATHS", 0)
    assert engine.query(sql).read_all().equals(in_the_text)


def test_the_lists_are_not_for_queries(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_PATHS", 0)
    for sql in ("SELECT getvariable('files 0 of t') FROM t", "SELECT * FROM duckdb_variables()"):
        with pytest.raises(BadSql):
            engine.query(sql)


def test_many_files_are_a_value_and_few_are_text() -> None:
    lists = module._Lists("t")
    assert lists.sql(["a", "it's"]) == "['a', 'it''s']"
    assert lists.steps == []
    many = [str(number) for number in range(module._FEW_PATHS + 1)]
    assert lists.sql(many) == "getvariable('files 0 of t')"
    assert lists.sql(many) == "getvariable('files 1 of t')"
    assert lists.steps[0] == ('SET VARIABLE "files 0 of t" = $1', [many])
