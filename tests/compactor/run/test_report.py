"""The report of a run for machines: exact numbers, and times as ISO 8601 in UTC."""

from __future__ import annotations

from pathlib import Path

from blockstore.compactor.run.once import plan_table
from blockstore.compactor.run.report import job_json
from blockstore.compactor.settings import Settings
from tests.compactor.scene import Scene


def test_a_planned_job_has_its_times_as_iso_texts(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    for writer in ("a", "b"):
        made.append(writer)
    (job,) = plan_table(made.open(), Settings(tier_blocks=2, work_dir=tmp_path))
    document = job_json(job)
    assert (document["min_time"], document["max_time"]) == (
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20.001Z",
    )
    assert document["window"] is None or all(
        str(moment).endswith("Z") for moment in document["window"]
    )  # type: ignore[attr-defined]
    assert document["expected_rows"] == 8
