"""Hidden columns through the gateway, whose queries run in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import blockstore as bs
from tests.reader.http.gateways import Served, make_lake, serving, settings


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A lake in whose table ``salaries`` a row was deleted, so that its first block was
    rewritten."""
    folder = tmp_path_factory.mktemp("gateway")
    url = make_lake(folder)
    bs.open(f"{folder}/lake/salaries?durable=false").delete(where="n = 1")
    asked = settings(url, folder)
    with serving(replace(asked, query=replace(asked.query, isolated=True))) as served:
        yield served


def lines(served: Served, sql: str) -> list[str]:
    answer = served.query(sql, accept="text/csv")
    assert answer.status_code == 200, answer.text
    return answer.text.replace('"', "").split()


def test_a_download_has_a_hidden_column_once(served: Served) -> None:
    sql = "select * exclude (time, s), _row_id, _version from flights where n in (0, 500)"
    assert sorted(lines(served, sql)) == ["0,0,2", "500,500,3", "n,_row_id,_version"]


def test_a_star_beside_a_condition_on_a_hidden_column_has_the_tables_columns(
    served: Served,
) -> None:
    assert (
        lines(served, "select * replace (n + 1 as n, 'x' as s) from flights where _row_id = 7")[0]
        == "time,n,s"
    )


@pytest.mark.parametrize(
    "accept", ["text/csv", "application/json", "application/vnd.apache.arrow.stream"]
)
@pytest.mark.parametrize("name", ["_row_id", "_version"])
def test_what_a_rewritten_block_cannot_give_is_refused_in_one_sentence(
    served: Served, name: str, accept: str
) -> None:
    answer = served.query(f"select n, {name} from salaries", accept=accept)
    assert answer.status_code == 400, answer.text
    assert f"does not have {name}, since it is a merge or a rewrite" in answer.json()["message"]


def test_other_rows_of_that_table_still_give_it(served: Served) -> None:
    assert sorted(lines(served, "select n, _row_id from salaries where n >= 5")) == [
        *(f"{n},{n}" for n in range(5, 10)),
        "n,_row_id",
    ]
    assert len(lines(served, "select n, _source from salaries")) == 10
