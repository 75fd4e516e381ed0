"""A short year: the table keeps its rows, and what a query reads beyond them stays bounded."""

from __future__ import annotations

import json
from pathlib import Path

from bench.rows_year import main


def test_a_short_year_of_a_small_table(tmp_path: Path) -> None:
    main([str(tmp_path), "--rows", "2000", "--changes", "40", "--days", "12"])
    days = json.loads((tmp_path / "rows-year.json").read_text())["days"]
    assert [day["day"] for day in days] == list(range(13))
    assert days[-1]["amplification"] < 1.25
    assert max(day["blocks"] for day in days) < 9
    picture = (tmp_path / "rows-year.svg").read_text()
    assert picture.count("<polyline") == 4
