"""The doors of jobs under fire: large bodies where none is due, a store that fails after a job was
made, long lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket.metered import Metered
from blockstore.errors import Unavailable
from blockstore.reader.http.job_routes import FORMS
from blockstore.reader.jobs.runner import Claimed
from blockstore.reader.jobs.store import JobStore
from tests.reader.http.gateways import (
    ADMIN,
    OTHER,
    Served,
    csv_of,
    make_lake,
    serving,
    settings,
    until_ended,
)

CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Served]:
    asked = settings(make_lake(tmp_path), tmp_path)
    with serving(replace(asked, http=replace(asked.http, max_upload_bytes=8 << 20))) as one:
        yield one


@pytest.mark.parametrize("kind", list(FORMS))
def test_only_the_door_of_files_takes_large_bodies(jobs: Served, kind: str) -> None:
    body = b" " * (2 * jobs.gateway.settings.http.max_body_bytes)
    assert len(body) < jobs.gateway.settings.http.max_upload_bytes
    with jobs.as_(None) as anonymous:
        assert (
            anonymous.post("/v1/query", content=body, headers={"Content-Type": kind}).status_code
            == 413
        )
    asked = jobs.http.post("/v1/jobs?table=salaries", content=body, headers={"Content-Type": kind})
    assert asked.status_code != 413, "this one does"


def test_a_job_that_was_made_is_reported_although_the_store_fails_then(
    jobs: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(job: str) -> Claimed | None:
        raise Unavailable("slow down")

    monkeypatch.setattr(jobs.gateway.need_jobs().runner, "offer", fails)
    asked = jobs.http.post("/v1/jobs?table=salaries", content=csv_of(range(10)), headers=CSV)
    assert asked.status_code == 202, asked.text
    assert until_ended(jobs.http, asked.json()["id"])["state"] == "done"
    assert len(jobs.http.get("/v1/jobs").json()["jobs"]) == 1


def test_a_list_reads_one_job_more_than_it_shows(
    jobs: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for number in range(6):
        data = csv_of(range(number, number + 2))
        made.append(
            jobs.http.post("/v1/jobs?table=salaries", content=data, headers=CSV).json()["id"]
        )
        until_ended(jobs.http, made[-1])
    with jobs.as_(OTHER) as other:
        assert other.get("/v1/jobs").json()["jobs"] == []
    metered = Metered(jobs.gateway.need_jobs().store.bucket)
    counted = replace(jobs.gateway.need_jobs(), store=JobStore(metered))
    monkeypatch.setattr(jobs.gateway, "need_jobs", lambda: counted)
    with jobs.as_(ADMIN) as boss:
        found = boss.get("/v1/jobs?limit=1").json()["jobs"]
    assert [one["id"] for one in found] == made[-1:]
    # The owners, the places of the only one's jobs, and four requests for each of two jobs.
    assert metered.counts.total() <= 2 + 2 * 4, metered.counts
