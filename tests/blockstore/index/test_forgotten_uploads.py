"""Uploads of a gateway are remembered until a floor passes them: the state does not grow with them,
and none comes twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blockstore.care.rebuild.compose import compose
from blockstore.care.rebuild.evidence import Evidence
from blockstore.errors import Corrupt, Invalid, NewerFormat
from blockstore.format.block import Job
from blockstore.format.features import UPLOADS, refuse_unknown
from blockstore.ids import ulid_at
from blockstore.index.batches import is_forgotten
from blockstore.index.change import Append, ClaimEpoch, Done, Draft, RaiseWatermarks
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.entry import Operation, decode_entry, encode_entry
from blockstore.index.fold import fold
from blockstore.index.rules import decide
from blockstore.index.state import State
from tests.support.index_data import NOW, Planned, block, created, entry_of, follow, ulid

DAY = 86_400_000
WINDOW = 30
HASHED = "6Q0000000000000000000000ZZ"
"""A job's id that is the hash of an Idempotency-Key: its letters say no time."""


def upload(time_ms: int, number: int = 0) -> Job:
    return Job(f"gateway/{HASHED}/input-{ulid_at(time_ms + number)}", 0)


def taken(job: Job, time_ms: int) -> Append:
    """An upload that wrote nothing: its batch is taken by an empty entry."""
    return Append(commit=ulid_at(time_ms), blocks=(), job=job)


def floor_at(state: State, time_ms: int) -> RaiseWatermarks:
    floor = ulid_at(time_ms)
    return RaiseWatermarks(
        commit=ulid_at(time_ms + WINDOW * DAY), epoch=state.epochs["compactor"], floor=floor
    )


@pytest.fixture
def table() -> State:
    state = follow(created(), ClaimEpoch(commit=ulid(1), claims="compactor"))
    horizon = RaiseWatermarks(
        commit=ulid(2), epoch=state.epochs["compactor"], horizon=ulid_at(NOW + 1000 * DAY)
    )
    return follow(state, horizon)


def test_a_checkpoint_does_not_grow_with_the_uploads_that_were_ever_made(table: State) -> None:
    state, sizes = table, []
    for day in range(4 * WINDOW):
        now = NOW + day * DAY
        for number in range(60):
            state = follow(
                state,
                taken(upload(now, number), now + 5_000 + number),
                time_ms=now + number * 60_000,
            )
        if day >= WINDOW:
            state = follow(state, floor_at(state, now - WINDOW * DAY), time_ms=now + DAY - 1)
        # The window of commit ids is bounded by itself, and not what is requested here.
        sizes.append(len(encode_checkpoint(replace(state, commits=table.commits))))
    held = len(state.batches)
    assert 60 * (WINDOW - 1) <= held <= 60 * (WINDOW + 1)
    assert sizes[-1] < 1.05 * sizes[WINDOW + 1]
    assert sizes[WINDOW] > 20 * sizes[0], "what is young is remembered"


def test_a_floor_forgets_what_lies_at_or_below_it_and_nothing_else(table: State) -> None:
    old, young = upload(NOW), upload(NOW + 2)
    others = [
        Job("nightly", 3),
        Job(f"gateway/{ulid(0)}/input-0123456789abcdef", 0),
        Job("gateway/", 0),
    ]
    state = follow(
        table, *(taken(job, NOW + 10 + n) for n, job in enumerate([old, young, *others]))
    )
    state = follow(state, floor_at(state, NOW))
    assert not state.committed(old)
    assert all(state.committed(job) for job in (young, *others))
    assert UPLOADS in state.requires
    assert (
        decode_checkpoint(encode_checkpoint(state), version=state.version).batches == state.batches
    )


def test_an_upload_that_a_floor_has_passed_is_taken_by_no_entry(table: State) -> None:
    """Whether it was committed or not: it is not known, and a second block of it would double its
    rows."""
    done, never = upload(NOW, 0), upload(NOW, 1)
    state = follow(table, taken(done, NOW + 10))
    state = follow(state, floor_at(state, NOW + 5))
    for job in (done, never):
        late = Append(commit=ulid(900), blocks=(block(910),), job=job)
        with pytest.raises(Invalid, match="no longer known whether it was committed"):
            decide(state, late)
        forced = replace(entry_of(state, Append(commit=ulid(901), blocks=())), job=job)
        with pytest.raises(Corrupt, match=r"commits upload .* at or below the floor"):
            fold(state, forced)
    assert not isinstance(decide(state, taken(upload(NOW + 6), NOW + 7)), Done)


def test_floors_of_earlier_releases_forget_no_upload(table: State) -> None:
    """Their entries require nothing: every release folds them to the same state, and the same
    checkpoint."""
    job = upload(NOW)
    state = follow(table, taken(job, NOW + 10))
    plain = Planned(
        operation=Operation.HORIZON, commit=ulid(20), plan=Draft(floor=ulid_at(NOW + 5))
    )
    state = follow(state, plain)
    assert state.committed(job)
    assert isinstance(decide(state, taken(job, NOW + 30)), Done), (
        "it is remembered, so it is answered"
    )
    state = follow(state, floor_at(state, NOW + 7))
    assert not state.committed(job)


def test_releases_that_would_fold_otherwise_refuse_the_entry(
    table: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of(table, floor_at(table, NOW))
    assert entry.requires == (UPLOADS,)
    assert fold(table, decode_entry(encode_entry(entry), entry_id=entry.id)) == fold(table, entry)
    monkeypatch.setattr("blockstore.format.features.KNOWN", frozenset())
    with pytest.raises(
        NewerFormat, match=r"requires the feature 'uploads'.*upgrade blocklake to 0\.2"
    ):
        refuse_unknown(entry.requires, "entry 4")
    follows = fold(table, entry)
    assert entry_of(follows, floor_at(follows, NOW + 1)).requires == (), "it is said once"


@pytest.mark.parametrize(
    ("app", "forgotten"),
    [
        (f"gateway/{HASHED}/input-{ulid_at(NOW)}", True),
        (f"gateway/{ulid_at(NOW + 9)}/input-{ulid_at(NOW)}", True),
        (f"gateway/{HASHED}/input-{ulid_at(NOW + 1)}", False),
        (f"gateway/{ulid_at(NOW)}/input-0123456789abcdef", False),
        (f"gateway/{ulid_at(NOW)}", False),
        (f"stream/{ulid_at(NOW)}/input-{ulid_at(NOW)}", False),
        (f"gateway/{HASHED}/input-{ulid_at(NOW)}\n", False),
    ],
)
def test_which_applications_are_uploads(app: str, forgotten: bool) -> None:
    assert is_forgotten(app, ulid_at(NOW)) is forgotten
    assert not is_forgotten(app, None)


def test_a_rebuilt_index_remembers_no_upload_that_a_floor_has_passed(table: State) -> None:
    old, young = upload(NOW), upload(NOW + 9)
    floored = follow(table, floor_at(table, NOW + 5))
    torn = [
        replace(entry_of(floored, Append(commit=ulid(800 + at), blocks=())), job=job)
        for at, job in enumerate([old, young])
    ]
    nothing: frozenset[str] = frozenset()
    evidence = Evidence(
        state=floored,
        later=tuple(torn),
        blocks={},
        accounted=nothing,
        hidden=nothing,
        removed=nothing,
    )
    rebuilt = compose(
        evidence,
        [],
        definition=floored.definition,
        tags={},
        version=99,
        commit=ulid(850),
        horizon=ulid(0),
    )
    assert (rebuilt.committed(old), rebuilt.committed(young)) == (False, True)
    assert rebuilt.forgot(old)
