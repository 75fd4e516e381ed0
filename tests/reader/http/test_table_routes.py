"""What the doors of a table answer about its versions."""

from __future__ import annotations

from pathlib import Path

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from tests.reader.http.gateways import make_lake, rows_of, serving, settings


def test_a_diff_tells_blocks_and_what_is_hidden_and_shown_again(tmp_path: Path) -> None:
    url = make_lake(tmp_path)
    table = bs.open(url.replace("?", "/flights?"))
    source = table.append(rows_of(range(1000, 1010))).ulid
    assert source is not None
    compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path))
    shown = table.poll()
    table.revert(source)
    hidden = table.poll()
    table.restore(version=shown)
    with serving(settings(url, tmp_path)) as served:

        def diff(before: int, after: int) -> tuple[object, ...]:
            found = served.http.get(f"/v1/tables/flights/diff?from={before}&to={after}").json()
            return found["rows"], list(found["hidden"].values()), list(found["shown"].values())

        assert diff(2, 4) == (510, [], [])
        assert diff(4, shown) == (0, [], [])
        assert diff(shown, hidden) == (None, [[source]], [])
        assert diff(hidden, table.poll()) == (None, [], [[source]])
