"""Quarantine: damaged blocks are kept from merges with a reason, and all others are merged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket.api import Bucket
from blockstore.compactor.merge import DamagedInput, Merged, MergeOptions, MergeTask
from blockstore.compactor.plan.damage import contradicted
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.quarantine import quarantine
from blockstore.compactor.run.report import Outcome
from blockstore.compactor.settings import Settings
from blockstore.format.marks import NoCompactReason, decode_no_compact_mark
from blockstore.lifecycle.listing import list_directories
from blockstore.names import meta_key, no_compact_mark_key, object_key
from blockstore.world import World
from tests.compactor.scene import Scene


def chunk_of(made: Scene, ulid: str) -> str:
    live = made.open().log.state.blocks.get(ulid)
    assert live is not None
    return object_key(ulid, live.meta.files[0].path)


def damage(made: Scene, ulid: str, how: str) -> None:
    key = chunk_of(made, ulid)
    data = made.bucket.get(key).data
    match how:
        case "meta":
            made.bucket.put(meta_key(ulid), b'{"version": 1, "ulid"')
        case "hash":
            made.bucket.put(key, data[:100] + bytes([data[100] ^ 1]) + data[101:])
        case "chunk":
            made.bucket.delete([key])
        case "size":
            made.bucket.put(key, data[:-1])


def reason(made: Scene, ulid: str) -> str:
    mark = decode_no_compact_mark(made.bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    assert mark.reason is NoCompactReason.MALFORMED
    return mark.details


def test_of_a_hundred_blocks_three_are_damaged_and_ninety_seven_are_merged(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    blocks = [made.append(f"w{number}", count=1) for number in range(100)]
    bad = {"meta": blocks[10], "hash": blocks[50], "chunk": blocks[90]}
    for how, ulid in bad.items():
        damage(made, ulid, how)
    report = made.compact()
    assert {how: ulid for how, ulid in bad.items() if ulid in report.left_out} == bad
    assert len(report.left_out) == 3
    assert sum(len(result.job.inputs) for result in report.done) == 97
    assert sorted(made.live()) == sorted([*bad.values(), str(report.done[0].block)])
    assert "cannot be read" in reason(made, bad["meta"])
    assert "SHA-256" in reason(made, bad["hash"])
    assert "missing" in reason(made, bad["chunk"])
    again = made.compact()
    assert (again.results, again.left_out) == ((), {})


class Refusing:
    """An engine that finds one block unreadable in every task."""

    def __init__(self, ulid: str) -> None:
        self.ulid = ulid

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        raise DamagedInput(self.ulid, f"block {self.ulid} is no readable Parquet file")


def test_what_an_engine_finds_is_quarantined_and_a_run_that_learns_nothing_more_ends(
    tmp_path: Path,
) -> None:
    made = Scene(tmp_path)
    blocks = [made.append(writer) for writer in ("a", "b", "c", "d")]
    settings = Settings(tier_blocks=3, work_dir=tmp_path)
    report = compact_once(made.open(), settings, engine=Refusing(blocks[1]))
    assert {result.outcome for result in report.results} == {Outcome.DAMAGED}
    assert list(report.left_out) == [blocks[1]]
    assert "no readable Parquet" in reason(made, blocks[1])


@pytest.mark.parametrize("how", ["chunk", "size"])
def test_what_a_listing_shows_is_known_before_anything_is_merged(tmp_path: Path, how: str) -> None:
    made = Scene(tmp_path)
    blocks = [made.append(writer) for writer in ("a", "b", "c", "d")]
    damage(made, blocks[2], how)
    report = made.compact()
    assert [result.outcome for result in report.results] == [Outcome.COMMITTED]
    assert list(report.left_out) == [blocks[2]]
    assert sorted(made.live()) == sorted([blocks[2], str(report.results[0].block)])


def test_a_listing_that_lacks_what_is_there_quarantines_nothing(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    ulid = made.append("a")
    live = made.open().log.state.blocks.get(ulid)
    assert live is not None
    listing = list_directories(made.bucket)
    stale = replace(
        listing.directories[ulid],
        objects={
            name: info
            for name, info in listing.directories[ulid].objects.items()
            if name != "meta.json"
        },
    )
    lagging = replace(listing, directories={ulid: stale})
    assert contradicted(made.bucket, lagging, [live.meta]) == {}


def test_a_block_that_is_gone_meanwhile_gets_no_mark(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    gone, *_ = [made.append(writer) for writer in ("a", "b", "c")]
    made.compact()
    assert not quarantine(made.open(), gone, "said by a merge that came too late")
    assert not any(info.key == no_compact_mark_key(gone) for info in made.bucket.list())


@pytest.mark.parametrize("how", ["chunk", "size"])
def test_what_the_columns_of_the_index_do_not_show_is_missed_before_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As where one chunk lacks as many bytes as another one has too many."""
    monkeypatch.setattr("blockstore.compactor.plan.observe.suspects", lambda *_, **__: [])
    made = Scene(tmp_path)
    blocks = [made.append(writer) for writer in ("a", "b", "c", "d")]
    damage(made, blocks[0], how)
    report = made.compact()
    assert list(report.left_out) == [blocks[0]]
    assert ("is missing" if how == "chunk" else "bytes, expected") in reason(made, blocks[0])
    assert sorted(made.live()) == sorted([blocks[0], str(report.done[0].block)])
