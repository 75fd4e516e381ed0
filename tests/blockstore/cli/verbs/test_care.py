"""``verify``, ``repair``, ``mark`` and ``index rebuild`` on a real folder: what a person sees, and
the exit codes."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.care.marks import hiding
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.process.status import Quarantined
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.quarantine import DamageMarks
from blockstore.compactor.settings import Settings
from tests.blockstore.cli.conftest import Command

UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def blocks(blockstore: Command, url: str) -> list[str]:
    return [block["ulid"] for block in blockstore("ls", url, "--json").json]


def rows(blockstore: Command, url: str) -> int:
    name = url.rpartition("/")[2]
    found: int = blockstore("query", url, f"select count(*) as n from {name}", "-o", "json").json[
        0
    ]["n"]
    return found


def chunk(url: str, ulid: str) -> Path:
    return Path(url, ulid, "chunks", "000001.parquet")


def quarantined(url: str) -> list[Quarantined]:
    """As the compactor's page shows them."""
    table = bs.open(url)
    seen = observe(table)
    marked = {block.ulid for block in seen.candidates if block.no_compact}
    found = DamageMarks(table.bucket).look(marked, seen.damaged, table.url)
    return [
        Quarantined(ulid=ulid, reason=reason, command=command, since_ms=0)
        for ulid, (reason, command) in found.items()
    ]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(bytes(data))


@pytest.fixture
def replica(flights: str, lake: str) -> str:
    shutil.copytree(flights, f"{lake}/replica")
    return f"{lake}/replica"


# -- verify


def test_verify_of_a_sound_table_says_so_and_answers_0(blockstore: Command, flights: str) -> None:
    for deep in ((), ("--deep",)):
        told = blockstore("verify", flights, *deep).out
        assert "3 complete blocks, 3 files" in told
        assert "version 4: no problems found" in told
        assert blockstore("verify", flights, *deep, "--json").json["findings"] == []


def test_verify_names_what_is_damaged_and_the_command_that_mends_it_and_answers_1(
    blockstore: Command, flights: str
) -> None:
    ulid = blocks(blockstore, flights)[1]
    flip(chunk(flights, ulid))
    Path(flights, "notes.txt").write_text("mine")
    assert "no problems found" not in blockstore("verify", flights).out
    failed = blockstore("verify", flights, "--deep", code=1)
    assert "1 error" in failed.err
    assert "1 error, 0 warnings, 1 note" in failed.out
    assert f"repair file://{flights} --block {ulid}" in " ".join(failed.out.split())
    found = blockstore("verify", flights, "--deep", "--json", code=1).json["findings"]
    assert [(one["severity"], one["check"], one["block"]) for one in found] == [
        ("error", "hash", ulid),
        ("note", "name", None),
    ]


def test_the_chain_that_verify_prints_is_the_one_that_it_takes(
    blockstore: Command, flights: str
) -> None:
    said = blockstore("verify", flights).out
    noted = said.split("chain ")[1].split()[0]
    assert noted == "{version}:{chain}".format(**blockstore("verify", flights, "--json").json)
    assert "no problems found" in blockstore("verify", flights, "--chain", noted).out
    other = noted[:-1] + ("0" if noted[-1] != "0" else "1")
    assert "was replaced" in " ".join(
        blockstore("verify", flights, "--chain", other, code=1).out.split()
    )
    assert "VERSION:DIGEST" in blockstore("verify", flights, "--chain", "seven", code=2).err
    *_, before, newest = blockstore("history", flights, "--json").json
    assert newest["prev"]["commit"] == before["commit"]


def test_verify_goes_on_where_the_index_cannot_be_read(blockstore: Command, flights: str) -> None:
    Path(flights, "gc/index.boundary").unlink()
    found = blockstore("verify", flights, "--json", code=1).json
    assert [one["check"] for one in found["findings"]] == ["boundary"]
    assert found["version"] == 4
    assert "no table" in blockstore("verify", f"{flights}/nothing", code=1).err


# -- repair


def test_repair_says_what_it_would_do_and_does_it_when_asked(
    blockstore: Command, flights: str, replica: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    flip(chunk(flights, ulid))
    told = blockstore("repair", flights, "--deep", "--from", replica).out
    assert "nothing was changed" in told
    assert "1 in the replica" in " ".join(told.split())
    assert ulid in blocks(blockstore, flights)
    assert (
        "replaced by block"
        in blockstore("repair", flights, "--deep", "--from", replica, "--yes").out
    )
    assert rows(blockstore, flights) == 18
    assert (
        "nothing to repair"
        in blockstore("repair", flights, "--deep", "--block", blocks(blockstore, flights)[0]).out
    )
    assert "rewrite" in blockstore("history", flights).out


def test_a_named_block_is_mended_at_once_unless_it_is_a_dry_run(
    blockstore: Command, flights: str, replica: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    chunk(flights, ulid).unlink()
    for words in (("--dry-run",), ()):
        done = blockstore(
            "repair", flights, "--block", ulid, "--from", replica, *words, "--json"
        ).json
        assert [step["does"] for step in done["plan"]] == ["rewrite"]
        assert len(done["done"]) == (0 if words else 1)
    assert rows(blockstore, flights) == 18


def test_the_page_s_command_looks_first_and_then_mends_a_block_that_was_put_back_by_hand(
    blockstore: Command, flights: str, replica: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    chunk(flights, ulid).unlink()
    assert list(compact_once(bs.open(flights), Settings()).left_out) == [ulid]
    (command,) = {one.command for one in quarantined(flights)}
    _, *words = shlex.split(command)
    told = " ".join(blockstore(*words).out.split())
    assert "--from URL" in told
    shutil.copy(chunk(replica, ulid), chunk(flights, ulid))
    for deep in ((), ("--deep",)):
        (found,) = blockstore("verify", flights, *deep, "--json").json["findings"]
        assert (found["severity"], found["check"], found["fix"]) == ("warning", "mark", command)
    (shown,) = quarantined(flights)
    assert shown.look is not None
    told = " ".join(blockstore(*shlex.split(shown.look)[1:]).out.split())
    assert "unmark" in told
    assert "without --dry-run to do this" in told
    assert len(quarantined(flights)) == 1
    assert "merges may take it again" in blockstore(*words).out
    assert quarantined(flights) == []
    assert blockstore("verify", flights, "--deep", "--json").json["findings"] == []
    assert "nothing to repair" in blockstore(*words).out


def test_a_mark_of_one_s_own_survives_the_repair_of_a_whole_block(
    blockstore: Command, flights: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    blockstore("mark", flights, ulid, "--no-compact", "--details", "mine")
    for words in (("--block", ulid), ("--deep", "--yes")):
        assert "nothing to repair" in blockstore("repair", flights, *words).out
    assert "no-compact" in blockstore("show", flights, ulid).out


def test_rows_are_dropped_only_by_name(blockstore: Command, flights: str) -> None:
    ulid = blocks(blockstore, flights)[0]
    chunk(flights, ulid).unlink()
    told = " ".join(blockstore("repair", flights, "--block", ulid).out.split())
    assert "6 of its 6 rows are lost" in told
    assert "--drop-damaged" in told
    assert ulid in blocks(blockstore, flights)
    assert "6" in blockstore("repair", flights, "--block", ulid, "--drop-damaged").out
    assert rows(blockstore, flights) == 12


def test_repair_makes_a_damaged_checkpoint_again(
    blockstore: Command, flights: str, lake: str
) -> None:
    url = f"{lake}/many"
    table = bs.create(url, schema=pa.schema([("a", pa.int64())]))
    for number in range(64):
        table.append(pa.table({"a": [number]}))
    checkpoint = Path(url, "index/checkpoints", f"{64:020d}.parquet")
    checkpoint.write_bytes(b"garbage")
    assert rows(blockstore, url) == 64, "readers begin with the entries"
    assert "checkpoint 64" in blockstore("verify", url, code=1).out
    assert "checkpoint 64" in blockstore("repair", url).out
    assert "written" in blockstore("repair", url, "--yes").out
    assert rows(blockstore, url) == 64


def test_repair_of_a_table_without_an_index_says_when_to_come_back(
    blockstore: Command, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{lake}/plain"
    blockstore("create", url, "--schema", "a:int", "--no-index")
    file = Path(lake, "one.csv")
    file.write_text("a\n1\n2\n")
    (made,) = [blockstore("write", url, str(file), "--json").json["ulid"]]
    shutil.copytree(url, f"{lake}/copy")
    flip(chunk(url, made))
    done = blockstore("repair", url, "--block", made, "--from", f"{lake}/copy", "--json").json[
        "done"
    ]
    assert done[0]["again"] is not None
    monkeypatch.setattr(hiding, "merges_settle_s", lambda _: 0.0)
    again = blockstore(
        "repair",
        url,
        "--block",
        made,
        "--from",
        f"{lake}/copy",
        "--property",
        "sync_delay=0s",
        "--json",
    ).json["done"]
    assert again[0]["block"] is not None


# -- mark


def test_a_live_block_is_taken_out_and_told_when_it_goes(blockstore: Command, flights: str) -> None:
    ulid = blocks(blockstore, flights)[0]
    assert (
        "version 5"
        in blockstore("mark", flights, ulid.lower(), "--deletion", "--details", "wrong").out
    )
    assert rows(blockstore, flights) == 12
    assert "needed by version 4" in blockstore("mark", flights, ulid, "--deletion", code=1).err


def test_no_compact_is_placed_shown_and_withdrawn(blockstore: Command, flights: str) -> None:
    ulid = blocks(blockstore, flights)[0]
    assert blockstore("mark", flights, ulid, "--no-compact", "--json").json["changed"] is True
    assert "no-compact" in blockstore("show", flights, ulid).out
    assert "nothing changed" in blockstore("mark", flights, ulid, "--no-compact").out
    assert "merges may take it" in blockstore("mark", flights, ulid, "--no-compact", "--remove").out
    assert "no-compact:" not in blockstore("show", flights, ulid).out


def test_now_removes_only_what_nobody_names_and_only_with_yes(
    blockstore: Command, flights: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    assert (
        "names it" in blockstore("mark", flights, ulid, "--deletion", "--now", "--yes", code=1).err
    )
    assert rows(blockstore, flights) == 18
    assert (
        "--yes" in blockstore("mark", flights, ulid, "--deletion", "--now", "--force", code=2).err
    )
    told = blockstore("mark", flights, ulid, "--deletion", "--now", "--force", "--yes").out
    assert "removed, 2 objects" in told or "removed, 3 objects" in told
    assert not chunk(flights, ulid).exists()
    assert rows(blockstore, flights) == 12


def test_without_the_compactor_s_room_now_answers_one_sentence_and_changes_nothing(
    blockstore: Command, flights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "blockstore.compactor.by_hand", None)
    ulid = blocks(blockstore, flights)[0]
    told = blockstore("mark", flights, ulid, "--deletion", "--now", "--yes", code=1).err
    assert "run pip install --force-reinstall blocklake" in told
    assert rows(blockstore, flights) == 18


def test_wrong_words_of_mark_are_usage_errors(blockstore: Command, flights: str) -> None:
    ulid = blocks(blockstore, flights)[0]
    for words in (
        (),
        ("--deletion", "--no-compact"),
        ("--no-compact", "--now"),
        ("--deletion", "--force"),
        ("--deletion", "--remove", "--now"),
    ):
        assert "--" in blockstore("mark", flights, ulid, *words, code=2).err
        assert rows(blockstore, flights) == 18
    assert "there is no block" in blockstore("mark", flights, UNKNOWN, "--deletion", code=1).err
    assert "not a block name" in blockstore("mark", flights, "x", "--deletion", code=1).err


# -- index rebuild


@pytest.mark.parametrize("found", [None, "", "x", "-1"])
def test_what_an_error_about_the_boundary_advises_mends_it(
    blockstore: Command, flights: str, found: str | None
) -> None:
    boundary = Path(flights, "gc/index.boundary")
    boundary.unlink() if found is None else boundary.write_text(found)
    told = blockstore("inspect", flights, code=1).err
    advised = re.search(r"'blockstore ([^']+)'", told)
    assert advised is not None, told
    blockstore(*advised[1].split(), "--yes")
    assert rows(blockstore, flights) == 18


def test_a_lost_index_comes_back_with_yes_alone(blockstore: Command, flights: str) -> None:
    assert "can be read" in blockstore("index", "rebuild", flights, code=1).err
    shutil.rmtree(f"{flights}/index")
    Path(flights, "gc/index.boundary").unlink()
    told = blockstore("index", "rebuild", flights).out
    assert "the new index would have 3 blocks" in told
    assert "is derived from the blocks" in " ".join(told.split())
    assert not Path(flights, "index").exists()
    assert "rebuilt: version 1000001" in blockstore("index", "rebuild", flights, "--yes").out
    assert rows(blockstore, flights) == 18
    assert "no problems found" in blockstore("verify", flights, "--deep").out


def test_a_lost_boundary_comes_back_and_the_plan_is_json_for_machines(
    blockstore: Command, flights: str
) -> None:
    Path(flights, "gc/index.boundary").unlink()
    found = blockstore("index", "rebuild", flights, "--json").json
    assert (found["way"], found["blocks"], found["done"]) == ("mend", [], None)
    assert blockstore("index", "rebuild", flights, "--yes", "--json").json["done"]["version"] == 4
    assert rows(blockstore, flights) == 18


def test_a_block_that_cannot_be_read_waits_for_the_person_s_word(
    blockstore: Command, flights: str
) -> None:
    ulid = blocks(blockstore, flights)[0]
    shutil.rmtree(f"{flights}/index")
    Path(flights, "gc/index.boundary").unlink()
    chunk(flights, ulid).unlink()
    failed = blockstore("index", "rebuild", flights, "--yes", code=1)
    assert "decide about 1 block first" in failed.err
    assert ulid in failed.out
    blockstore("index", "rebuild", flights, "--yes", "--leave-out", ulid)
    assert rows(blockstore, flights) == 12
    assert "rebuild" in blockstore("index", "mend", flights, code=2).err
