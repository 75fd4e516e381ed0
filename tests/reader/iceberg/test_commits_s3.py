"""A commit to a table on a real S3 server: the files are fetched, become blocks, and go."""

from __future__ import annotations

from pathlib import Path

import blockstore as bs
from blockstore.reader.settings import JobSettings, TableSettings
from tests.reader.http.gateways import SCHEMA, rows_of, serving, settings
from tests.reader.iceberg.foreign import Engine
from tests.reader.iceberg.test_commits import NEW, numbers, send


def test_rows_are_appended_and_replaced_and_no_file_stays(s3_url: str, tmp_path: Path) -> None:
    made = bs.create(f"{s3_url}/lake/flights", schema=SCHEMA, time_column="time")
    made.append(rows_of(range(10)))
    asked = settings(
        f"{s3_url}/lake",
        tmp_path,
        tables=TableSettings(urls=(f"{s3_url}/lake",)),
        jobs=JobSettings(work_dir=tmp_path / "not there yet"),
    )
    with serving(asked) as served:
        served.gateway.tables.poll_now()
        engine = Engine(made)
        body = engine.append(engine.data(NEW))
        assert [send(served, body).status_code for _ in range(2)] == [200, 200]
        assert numbers(served) == [*range(10), 5000, 5001, 5002]
        made.poll()
        engine.loaded_again()
        assert send(served, engine.instead(engine.data(NEW))).status_code == 200
        assert numbers(served) == [5000, 5001, 5002]
        assert not list(made.bucket.list("incoming/"))
