"""The status as JSON: every field that the page reads, of bounded size whatever is merged."""

from __future__ import annotations

from dataclasses import replace

import orjson

from blockstore.compactor.process.status import JobState, Quarantined
from blockstore.compactor.web.encode import encode_status
from blockstore.ids import ulid_at
from tests.compactor.web.process import NOW_MS, busy, job, status, table_status


def test_what_the_status_says_is_in_the_json() -> None:
    shown = busy()
    value = orjson.loads(encode_status(shown))
    assert [table["name"] for table in value["tables"]] == ["readings", "events", "trips"]
    first, second, third = value["tables"]
    assert (first["version"], first["boundary"], first["backlog_jobs"], first["backlog_bytes"]) == (
        1204,
        310,
        5,
        480 << 20,
    )
    assert first["running"][0]["progress"] == 0.42
    assert len(first["planned"]) == first["planned_count"] == 5
    assert first["finished"][-1]["state"] == "damaged"
    first_bad, second_bad = first["quarantined"]
    assert first_bad["command"].startswith("blockstore repair s3://")
    assert first_bad["look"] == f"{first_bad['command']} --dry-run"
    assert (second_bad["command"].split()[1], second_bad["look"]) == ("show", None)
    assert (second["health"], second["fix"]) == ("degraded", shown.tables[1].fix)
    assert second["loops"][1]["failures"] == 12
    assert (third["indexed"], third["version"]) == (False, None)
    assert value["loops"][0]["success"] == NOW_MS - 38_500


def test_a_status_stays_small_whatever_waits() -> None:
    inputs = tuple(ulid_at(one) for one in range(4096))
    planned = tuple(job(0, "t", JobState.PLANNED, inputs=inputs, blocks=4096) for _ in range(300))
    bad = tuple(
        Quarantined(ulid=one, reason="damaged", since_ms=1, command="blockstore show")
        for one in inputs
    )
    data = encode_status(status(table_status("t", planned=planned, quarantined=bad)))
    table = orjson.loads(data)["tables"][0]
    assert (table["planned_count"], len(table["planned"])) == (300, 100)
    assert (table["planned"][0]["input_count"], len(table["planned"][0]["inputs"])) == (4096, 12)
    assert (table["quarantined_count"], len(table["quarantined"])) == (4096, 500)
    assert len(data) < 300_000


def test_the_process_says_what_is_wrong_with_it() -> None:
    shown = replace(
        status(), stopping=True, not_ready=("no table was looked at yet",), unhealthy=("fenced",)
    )
    value = orjson.loads(encode_status(shown))
    assert (value["stopping"], value["not_ready"], value["unhealthy"]) == (
        True,
        ["no table was looked at yet"],
        ["fenced"],
    )
