"""The verbs that change what is there already: what they do, say and refuse."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from tests.blockstore.cli.conftest import Command

HEADER = "origin,time_hour,delay,fare\n"


def rows(blockstore: Command, url: str, where: str = "true") -> int:
    found = blockstore(
        "query", url, f"select count(*) as n from flights where {where}", "-o", "json"
    ).json
    return int(found[0]["n"])


def versions(blockstore: Command, url: str) -> list[str]:
    return [entry["operation"] for entry in blockstore("history", url, "--json").json]


class TestDelete:
    def test_a_dry_run_tells_what_would_go_and_the_verb_does_it(
        self, blockstore: Command, flights: str
    ) -> None:
        words = ("delete", flights, "--where", "origin = 'JFK'")
        told = blockstore(*words, "--dry-run").out
        assert "would delete 9 rows of" in told
        assert "nothing was changed yet" in told
        assert rows(blockstore, flights) == 18
        planned = blockstore(*words, "--dry-run", "--json").json
        done = blockstore(*words, "--json", "--message", "closed").json
        assert (done["rows_removed"], done["version"], done["dry_run"]) == (9, 5, False)
        assert sorted(planned["rewritten"]) == sorted(done["rewritten"])
        assert rows(blockstore, flights) == 9
        assert rows(blockstore, flights, "origin = 'JFK'") == 0
        assert blockstore("history", flights, "-n", "1", "--json").json[0]["message"] == "closed"

    def test_it_says_blocks_and_the_version(self, blockstore: Command, flights: str) -> None:
        told = blockstore("delete", flights, "--where", "day = '1'").out
        assert "deleted 6 rows of" in told
        assert "1 block removed, 0 rewritten" in told
        assert told.rstrip().endswith("version 5")

    def test_nothing_to_delete_is_said(self, blockstore: Command, flights: str) -> None:
        assert "nothing was changed" in blockstore("delete", flights, "--where", "delay > 1000").out
        assert len(versions(blockstore, flights)) == 4

    @pytest.mark.parametrize(
        ("words", "code", "says"),
        [
            ([], 2, "where"),
            (["--where", "delay >"], 1, "cannot read the condition"),
            (["--where", "nowhere = 1"], 1, "nowhere"),
            (["--where", "true", "--isolation", "none"], 1, "isolation"),
        ],
    )
    def test_a_wrong_call_is_told(
        self, blockstore: Command, flights: str, words: list[str], code: int, says: str
    ) -> None:
        assert says in blockstore("delete", flights, *words, code=code).err
        assert len(versions(blockstore, flights)) == 4


class TestOverwrite:
    def test_the_rows_that_match_by_those_of_files(
        self, blockstore: Command, flights: str, tmp_path: Path
    ) -> None:
        (tmp_path / "new.csv").write_text(HEADER + "JFK,2013-02-01,7,1.00\n" * 2)
        words = ("overwrite", flights, str(tmp_path / "new.csv"), "--where", "origin = 'JFK'")
        assert "would replace 9 rows by 2 new rows in" in blockstore(*words, "--dry-run").out
        assert rows(blockstore, flights) == 18
        assert "replaced 9 rows by 2 new rows in" in blockstore(*words).out
        assert (rows(blockstore, flights), rows(blockstore, flights, "delay = 7")) == (11, 2)

    def test_everything_without_a_condition(
        self, blockstore: Command, flights: str, tmp_path: Path
    ) -> None:
        (tmp_path / "new.csv").write_text(HEADER + "LGA,2013-02-01,7,1.00\n")
        done = blockstore("overwrite", flights, str(tmp_path / "new.csv"), "--json").json
        assert (done["rows_added"], done["rows_removed"], len(done["removed"])) == (1, 18, 3)
        assert rows(blockstore, flights) == 1

    def test_with_a_job_once(self, blockstore: Command, flights: str, tmp_path: Path) -> None:
        (tmp_path / "new.csv").write_text(HEADER + "LGA,2013-02-01,7,1.00\n")
        words = ("overwrite", flights, str(tmp_path / "new.csv"), "--app", "load", "--batch", "1")
        blockstore(*words)
        assert "was written to" in blockstore(*words).out
        assert blockstore(*words, "--json").json["already"] is True
        assert len(versions(blockstore, flights)) == 5

    def test_a_row_that_does_not_meet_the_condition_is_told_with_its_file(
        self, blockstore: Command, flights: str, tmp_path: Path
    ) -> None:
        (tmp_path / "good.csv").write_text(HEADER + "JFK,2013-02-01,7,1.00\n")
        (tmp_path / "bad.csv").write_text(HEADER + "LGA,2013-02-01,7,1.00\n")
        files = (str(tmp_path / "good.csv"), str(tmp_path / "bad.csv"))
        told = blockstore("overwrite", flights, *files, "--where", "origin = 'JFK'", code=1).err
        assert "bad.csv, line 2: row 1 (from 0) of the new rows has origin = 'LGA'" in told
        assert len(versions(blockstore, flights)) == 4

    def test_a_bad_file_is_told_by_its_own_name(
        self, blockstore: Command, flights: str, tmp_path: Path
    ) -> None:
        (tmp_path / "good.csv").write_text(HEADER + "JFK,2013-02-01,7,1.00\n")
        (tmp_path / "bad.csv").write_text(HEADER + "JFK,2013-02-01,late,1.00\n")
        told = blockstore(
            "overwrite", flights, str(tmp_path / "good.csv"), str(tmp_path / "bad.csv"), code=1
        ).err
        assert "bad.csv, line 2: column 'delay' is 'late'" in told
        assert "good.csv" not in told

    @pytest.mark.parametrize(
        ("words", "says"),
        [([], "no file was given"), (["a.csv", "--app", "x"], "give both or neither")],
    )
    def test_a_wrong_call_is_told(
        self, blockstore: Command, flights: str, words: list[str], says: str
    ) -> None:
        assert says in blockstore("overwrite", flights, *words, code=2).err


class TestRevertAndRestore:
    def test_a_write_is_hidden_and_comes_back(self, blockstore: Command, flights: str) -> None:
        ulid = blockstore("history", flights, "--json").json[1]["added"][0]
        planned = blockstore("revert", flights, ulid, "--dry-run", "--json").json
        assert planned["rows"] == {ulid: 6}
        assert (
            f"would hide 6 rows of write {ulid}"
            in blockstore("revert", flights, ulid, "--dry-run").out
        )
        assert rows(blockstore, flights) == 18
        assert "version 5" in blockstore("revert", flights, ulid).out
        assert rows(blockstore, flights) == 12
        assert "nothing to do" in blockstore("revert", flights, ulid).out
        words = ("restore", flights, "--version", "4")
        assert "would restore" in blockstore(*words, "--dry-run").out
        assert "1 block back, 0 out, +6 rows; version 7" in blockstore(*words).out
        assert rows(blockstore, flights) == 18
        assert "nothing was changed" in blockstore(*words).out
        assert blockstore(*words, "--json").json["version"] is None

    def test_a_reverted_overwrite_says_what_does_not_come_back(
        self, blockstore: Command, flights: str, tmp_path: Path
    ) -> None:
        (tmp_path / "new.csv").write_text(HEADER + "LGA,2013-02-01,7,1.00\n")
        (ulid,) = blockstore("overwrite", flights, str(tmp_path / "new.csv"), "--json").json[
            "added"
        ]
        assert (
            "the rows that it replaced do not come back" in blockstore("revert", flights, ulid).out
        )
        assert rows(blockstore, flights) == 0

    def test_by_a_tag_and_by_a_time(self, blockstore: Command, flights: str) -> None:
        assert "keeps version 2" in blockstore("tag", flights, "first", "--version", "2").out
        assert blockstore("tag", flights, "last", "--json").json == {"tag": "last", "version": 5}
        blockstore("restore", flights, "--tag", "first")
        assert rows(blockstore, flights) == 6
        blockstore("restore", flights, "--as-of", "2100-01-01T00:00:00Z")
        blockstore("restore", flights, "--tag", "last")
        assert rows(blockstore, flights) == 18
        assert "is removed" in blockstore("untag", flights, "first").out
        assert "no tag 'first'" in blockstore("restore", flights, "--tag", "first", code=1).err
        assert blockstore("untag", flights, "last", "--json").json == {"untagged": "last"}

    @pytest.mark.parametrize(
        ("words", "code", "says"),
        [
            (["revert"], 1, "needs at least one write"),
            (["revert", "x"], 1, "not a ULID"),
            (["revert", "01HF7YAT00TTTTTTTTTTTTTTTT"], 1, "has no write"),
            (["restore"], 1, "exactly one"),
            (["restore", "--version", "9"], 1, "no version 9"),
            (["restore", "--as-of", "soon"], 2, "--as-of"),
            (["tag", "7"], 1, "not only digits"),
            (["tag", "t", "--version", "9"], 1, "no version 9"),
            (["untag", "t"], 1, "no tag 't'"),
        ],
    )
    def test_a_wrong_call_is_told(
        self, blockstore: Command, flights: str, words: list[str], code: int, says: str
    ) -> None:
        assert says in blockstore(words[0], flights, *words[1:], code=code).err
        assert len(versions(blockstore, flights)) == 4


class TestRowsThatChange:
    @pytest.fixture
    def staff(self, tmp_path: Path) -> str:
        url = f"file://{tmp_path}/staff"
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        table = bs.create(url, schema=schema, key="id")
        table.upsert(pa.table({"id": [1, 2], "name": ["Ada", "Grace"]}))
        table.upsert(pa.table({"id": [2, 3], "name": ["Hopper", "Mary"]}))
        table.upsert(pa.table({"id": [3], "name": ["Marie"]}))
        return url

    def test_a_revert_says_which_rows_stay(self, blockstore: Command, staff: str) -> None:
        assert "would undo 1 row of write" in blockstore("revert", staff, "3", "--dry-run").out
        assert "nothing was applied" in blockstore("revert", staff, "3", "--strict", code=1).err
        told = blockstore("revert", staff, "3").out
        assert "left 1 row of write" in told
        assert told.rstrip().endswith("version 5")
        left = blockstore("revert", staff, "3", "--json").json
        assert left["left_rows"] == [[2, 3, 5], [3, 3, 4]]

    def test_a_restore_counts_rows(self, blockstore: Command, staff: str) -> None:
        words = ("restore", staff, "--version", "2")
        said = "0 rows back, 1 as before, 1 out"
        assert f"{said}; nothing was changed yet" in blockstore(*words, "--dry-run").out
        assert f"{said}; version 5" in blockstore(*words).out
        assert blockstore("restore", staff, "--version", "5", "--json").json["rows_back"] == 0
        assert "already has the rows" in blockstore("restore", staff, "--version", "5").out
