"""Errors over HTTP: each status that a route may answer is explained in the guide."""

from __future__ import annotations

import re
from pathlib import Path

from blockstore.errors import Corrupt
from blockstore.reader.http.problems import of_error
from blockstore.reader.http.query_routes import ERRORS

_GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "gateway.md"


def test_the_guide_says_of_every_status_what_to_do() -> None:
    rows = re.findall(
        r"^\| (\d{3}(?:, \d{3})*) \| (.+?) \| .+ \|$", _GUIDE.read_text(), re.MULTILINE
    )
    reported = {int(status): kinds for statuses, kinds in rows for status in statuses.split(", ")}
    damaged = of_error(Corrupt("bad bytes"))
    assert {*ERRORS, 405, damaged.status_code} <= reported.keys()
    assert f"`{damaged.error}`" in reported[damaged.status_code]
