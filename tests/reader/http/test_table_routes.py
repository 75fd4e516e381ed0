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


def test_blocks_come_in_pages_of_one_version(tmp_path: Path) -> None:
    url = make_lake(tmp_path)
    table = bs.open(url.replace("?", "/flights?"))
    for first in range(1000, 1005):
        table.append(rows_of(range(first, first + 1)))
    expected = [block.ulid for block in table.snapshot().blocks]
    with serving(settings(url, tmp_path)) as served:
        path = "/v1/tables/flights/blocks"
        whole = served.http.get(path).json()
        assert ([one["ulid"] for one in whole["blocks"]], whole["next"]) == (expected, None)
        found, after, pages = [], None, 0
        while pages == 0 or after is not None:
            more = {} if after is None else {"after": after, "version": whole["version"]}
            page = served.http.get(path, params={"limit": 3, **more}).json()
            found += [one["ulid"] for one in page["blocks"]]
            after, pages = page["next"], pages + 1
            if pages == 1:
                table.append(rows_of(range(2000, 2001)))
        assert (found, pages) == (expected, 3)
        last = served.http.get(path, params={"limit": 7, "version": whole["version"]}).json()
        assert (len(last["blocks"]), last["next"]) == (7, None)
        beyond = served.http.get(path, params={"after": "7" + "Z" * 25}).json()
        assert (beyond["blocks"], beyond["next"]) == ([], None)
        for wrong in ({"limit": 0}, {"limit": 10_001}, {"after": "x"}):
            assert served.http.get(path, params=wrong).status_code == 400
        parameters = served.http.get("/openapi.json").json()["paths"]["/v1/tables/{table}/blocks"][
            "get"
        ]["parameters"]
        assert {"limit", "after"} <= {one["name"] for one in parameters}
