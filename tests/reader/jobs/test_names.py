"""The names of a job's records: formatted and parsed by one module, strictly."""

from __future__ import annotations

import pytest

from blockstore import names

JOB = "01JD0000000000000000000000"


def test_every_record_lies_below_its_job_and_is_distinguished() -> None:
    keys = [
        names.job_request_key(JOB),
        names.job_input_key(JOB, "ab12"),
        names.job_claim_key(JOB, 3),
        names.job_cancel_key(JOB),
        names.job_outcome_key(JOB),
        names.job_result_key(JOB, 3),
    ]
    assert len({*keys}) == len(keys)
    for key in keys:
        split = names.split_job_key(key)
        assert split is not None
        assert split[0] == JOB
        assert names.parse_job_claim(split[1]) == (
            3 if key == names.job_claim_key(JOB, 3) else None
        )


@pytest.mark.parametrize(
    "key",
    [
        "jobs/",
        "jobs/x/request.json",
        f"jobs/{JOB}",
        f"jobs/{JOB}/",
        f"other/{JOB}/request.json",
        f"{JOB}/x",
    ],
)
def test_what_is_no_jobs_key_is_none(key: str) -> None:
    assert names.split_job_key(key) is None
