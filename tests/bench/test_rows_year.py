"""A short year: the table keeps its rows, and what a query reads beyond them stays bounded."""

from __future__ import annotations

from pathlib import Path

from bench.rows_year import main
from bench.year_page import Year, section


def test_a_short_year_of_a_small_table(tmp_path: Path) -> None:
    main([str(tmp_path), "--rows", "2000", "--changes", "40", "--days", "12"])
    year = Year.load(tmp_path / "rows-year.json")
    days = year.days
    assert [day.day for day in days] == list(range(13))
    assert days[-1].amplification is not None
    assert days[-1].amplification < 1.25
    assert max(day.blocks for day in days) < 9
    assert [day.day for day in days if day.query_ms is not None] == [0, 5, 10, 12]
    assert "2,000 rows with a key" in section(year)
    picture = (tmp_path / "rows-year.svg").read_text()
    assert picture.count("<polyline") == 4
