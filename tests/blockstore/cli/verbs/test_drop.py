"""``drop`` and ``undrop``: what they say, and what other verbs show of a dropped table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import blockstore as bs
from tests.blockstore.cli.conftest import Command

SCHEMA = pa.schema([("n", pa.int64())])


def filled(url: str) -> None:
    table = bs.create(url, schema=SCHEMA)
    table.append(pa.table({"n": [1, 2]}))


def test_a_table_goes_by_yes_alone_and_comes_back(blockstore: Command, lake: str) -> None:
    url = f"{lake}/t"
    filled(url)
    found = blockstore("drop", url, code=2)
    assert "nothing was dropped: --yes drops" in found.err
    assert "its 1 block" in found.err
    assert bs.open(url).poll() == 2
    done = blockstore("drop", url, "--yes", "--message", "old")
    assert "by version 3, 1 block" in done.out
    assert "brings it back for 48h" in done.out
    assert blockstore("history", url, "--json").json[-1]["message"] == "old"
    assert "was dropped at" in blockstore("history", url, "--row", "1", code=1).err
    gone = blockstore("drop", url, "--yes", code=1)
    assert "was dropped at" in gone.err
    back = blockstore("undrop", url)
    assert "is back by version 4: 1 block" in back.out
    assert [one["message"] for one in blockstore("history", url, "--json").json][-2:] == ["old", ""]


def test_as_json(blockstore: Command, lake: str) -> None:
    url = f"{lake}/t"
    filled(url)
    shown = f"file://{url}"
    assert blockstore("drop", url, "--yes", "--json").json == {"dropped": shown, "version": 3}
    assert blockstore("undrop", url, "--json").json == {"undropped": shown, "version": 4}


def test_listings_leave_it_out_and_cleaning_does_not(blockstore: Command, lake: str) -> None:
    for name in ("kept", "gone"):
        filled(f"{lake}/{name}")
    bs.drop(f"{lake}/gone")
    assert [one["name"] for one in blockstore("ls", lake, "--json").json] == ["kept"]
    found = blockstore("query", lake, "select count(*) as n from kept", "-o", "json")
    assert '"n": 2' in found.out or '"n":2' in found.out
    assert "was dropped at" in blockstore("query", lake, "select * from gone", code=1).err
    assert blockstore("cleanup", f"{lake}/gone", "--json").json["removed"] == []
    assert blockstore("compact", f"{lake}/gone", "--once")
    assert blockstore("verify", f"{lake}/gone")


def test_a_table_is_created_where_one_was_dropped(blockstore: Command, lake: str) -> None:
    url = f"{lake}/t"
    filled(url)
    blockstore("drop", url, "--yes")
    blockstore("create", url, "--schema", "m:string")
    assert bs.open(url).definition.schema.names == ["m"]
    assert "there is nothing to undrop" in blockstore("undrop", url, code=1).err


def test_what_is_no_table(blockstore: Command, tmp_path: Path) -> None:
    for verb in (("drop", "--yes"), ("undrop",)):
        assert "no table at" in blockstore(verb[0], f"{tmp_path}/none", *verb[1:], code=1).err
    bs.create(f"{tmp_path}/listed", schema=SCHEMA, index=False).append(pa.table({"n": [1]}))
    assert "has no index" in blockstore("drop", f"{tmp_path}/listed", "--yes", code=1).err
