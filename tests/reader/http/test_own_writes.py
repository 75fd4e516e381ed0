"""What a gateway says is written, its next query reads: whoever ran the job, and however far the
next poll is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blockstore.reader.settings import JobSettings, TableSettings
from tests.reader.http.gateways import Served, csv_of, make_lake, serving, settings, until_ended

CSV = {"Content-Type": "text/csv"}
TWO = "select (select count(*) from salaries) as c, (select count(*) from flights) as others"


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return make_lake(tmp_path)


@pytest.fixture
def slow(lake: str, tmp_path: Path) -> Iterator[Served]:
    """A gateway whose next poll is too far away to help."""
    with serving(_slow(lake, tmp_path)) as one:
        yield one


def _slow(lake: str, folder: Path):  # type: ignore[no-untyped-def]
    return settings(
        lake,
        folder,
        tables=TableSettings(urls=(lake,), poll_s=300, max_staleness_s=600),
        jobs=JobSettings(poll_s=0.2, lease_s=10, work_dir=folder / "work"),
    )


def uploaded(served: Served, rows: range) -> str:
    asked = served.http.post("/v1/jobs?table=salaries", content=csv_of(rows), headers=CSV)
    assert asked.status_code == 202, asked.text
    job = str(asked.json()["id"])
    assert until_ended(served.http, job)["state"] == "done"
    return job


def counted(served: Served, sql: str) -> int:
    return int(served.rows(sql)[0]["c"])


@pytest.mark.parametrize(
    "sql", ["select count(*) as c from salaries", TWO], ids=["one table", "two tables"]
)
def test_rows_of_an_upload_are_in_the_next_query(slow: Served, sql: str) -> None:
    assert counted(slow, sql) == 10
    for more in (5, 10):
        uploaded(slow, range(5))
        assert counted(slow, sql) == 10 + more


def test_the_tables_and_the_history_say_the_version_of_an_upload(slow: Served) -> None:
    before = slow.http.get("/v1/tables/salaries").json()
    uploaded(slow, range(5))
    after = slow.http.get("/v1/tables/salaries").json()
    assert (after["rows"], after["version"]) == (before["rows"] + 5, before["version"] + 1)


@pytest.mark.parametrize("path", ["/v1/jobs/{job}", "/v1/jobs"])
def test_a_gateway_that_says_done_answers_what_another_wrote(
    slow: Served, lake: str, tmp_path: Path, path: str
) -> None:
    with serving(_slow(lake, tmp_path / "other")) as other:
        assert counted(other, TWO) == 10
        job = uploaded(slow, range(5))
        assert other.http.get(path.format(job=job)).status_code == 200
        assert counted(other, TWO) == 15
