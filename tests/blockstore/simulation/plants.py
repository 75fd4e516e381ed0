"""Faults planted into the product: each leaves out one rule of the protocol.

The simulation must find each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import blockstore.compactor.clean.cleaner
from blockstore.errors import AlreadyExists, BlockstoreError, Unanswered, Unavailable
from blockstore.format.block import VisibleBy
from blockstore.index import commit, fold, gc, rules
from blockstore.index.boundary import Boundary
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.commit import Attempt, Committer
from blockstore.index.commit_ids import Commits
from blockstore.index.entry import Entry, Operation
from blockstore.index.same_history import Looks
from blockstore.index.state import State
from blockstore.lifecycle import upload
from blockstore.lifecycle.by_index import ByIndex
from blockstore.lifecycle.discoverable import Discoverable
from blockstore.lifecycle.sight import Sight
from blockstore.lifecycle.watermarks import highest_horizon
from blockstore.names import entry_key

Patch = pytest.MonkeyPatch


def no_boundary_check(patch: Patch) -> None:
    """Step 5 accepts every entry that was created."""
    patch.setattr(Boundary, "check", lambda self, entry: True)


def boundary_read_before_the_create(patch: Patch) -> None:
    """Step 5 believes what was read before."""
    patch.setattr(Boundary, "check", lambda self, entry: entry > self.seen)


def moved_payload(patch: Patch) -> None:
    """An operation whose payload gets no response forgets where it sent it, and begins again at the
    next free id."""
    send = Committer._send

    def forgetful(
        self: Committer, attempt: Attempt, entry: int, deadline: float, **how: Any
    ) -> bool:
        try:
            self._bucket.put_if_absent(entry_key(entry), attempt.sent[entry])
        except Unanswered:
            attempt.sent.clear()
            self.state = None
            return False
        except (AlreadyExists, Unavailable):
            pass
        return send(self, attempt, entry, deadline, **how)

    patch.setattr(Committer, "_send", forgetful)
    patch.setattr(Commits, "find", lambda self, commit: None)


def checkpoint_before_the_check(patch: Patch) -> None:
    """The committer writes the checkpoint of its entry before step 5 has confirmed it."""
    send = Committer._send

    def hasty(self: Committer, attempt: Attempt, entry: int, deadline: float, **how: Any) -> Any:
        state: State | None = how.get("after")
        if state is not None and entry % 4 == 0:
            try:
                write_checkpoint(self._bucket, state)
            except BlockstoreError:
                pass
        return send(self, attempt, entry, deadline, **how)

    patch.setattr(Committer, "_send", hasty)


def removal_before_the_horizon(patch: Patch) -> None:
    """Debris is condemned by its age alone; no process that comes late gets an error."""
    judge = ByIndex.__init__

    def by_age(self: ByIndex, sight: Sight, state: State, horizon: str | None = None) -> None:
        judge(self, sight, state, highest_horizon(sight))

    patch.setattr(ByIndex, "__init__", by_age)
    patch.setattr(blockstore.compactor.clean.cleaner, "horizon_to_raise", lambda sight: None)


def discovery_of_accounted_sources(patch: Patch) -> None:
    """Discovery adds every aged block that it finds, also one that the index has accounted for."""
    leave, check = rules._reason_to_leave, fold._check_new

    def careless(*given: Any) -> Any:
        return None if given[-1] is Operation.DISCOVER else leave(*given)

    def blind(state: State, entry: Entry, *rest: Any) -> None:
        if entry.operation != Operation.DISCOVER:
            check(state, entry, *rest)

    def everything(sight: Sight, state: State) -> Discoverable:
        ready = (
            one.meta for one in sight.found.values() if one.meta is not None and sight.is_ready(one)
        )
        found = [
            meta
            for meta in ready
            if meta.visible_by is VisibleBy.AGE and meta.ulid not in state.blocks
        ]
        return Discoverable(blocks=tuple(found))

    patch.setattr(rules, "_reason_to_leave", careless)
    patch.setattr(fold, "_check_new", blind)
    patch.setattr(blockstore.compactor.clean.cleaner, "discoverable", everything)


def upload_without_the_look_afterwards(patch: Patch) -> None:
    """An uploader does not look for a deletion mark once its meta.json is there (R3)."""
    patch.setattr(upload, "_look", lambda bucket, meta: None)


def collector_in_a_hurry(patch: Patch) -> None:
    """Versions are collected after half of the time for which they must be readable."""
    wanted = gc.wanted_boundary
    patch.setattr(
        gc,
        "wanted_boundary",
        lambda boundary, entries, *, now_ms, retention_ms: wanted(
            boundary, entries, now_ms=now_ms, retention_ms=retention_ms // 2
        ),
    )


def entries_of_every_history_count(patch: Patch) -> None:
    """An entry counts whatever it names as the one below it."""
    patch.setattr(Entry, "follows", lambda self, last: True)


def no_look_after_the_create(patch: Patch) -> None:
    """After the PUT only the boundary is read, and not whether the history is still the same."""

    def boundary_alone(self: Committer, entry: int, before: State) -> tuple[bool, bool]:
        above = self._boundary.check(entry)
        return above, above

    patch.setattr(Committer, "_checked_after", boundary_alone)


def no_look_before_an_entry_is_sent_again(patch: Patch) -> None:
    """An unanswered payload is sent again, in the same bytes, into whatever history is there by
    then."""
    patch.setattr(commit, "resent", lambda payload, entry: payload)
    patch.setattr(Looks, "check_now", lambda self, state: True)


PLANTS: Mapping[str, Callable[[Patch], None]] = {
    plant.__name__: plant
    for plant in (
        no_boundary_check,
        boundary_read_before_the_create,
        moved_payload,
        checkpoint_before_the_check,
        removal_before_the_horizon,
        discovery_of_accounted_sources,
        upload_without_the_look_afterwards,
        collector_in_a_hurry,
        entries_of_every_history_count,
        no_look_after_the_create,
        no_look_before_an_entry_is_sent_again,
    )
}
PLANT_SEEDS: Mapping[str, int] = {
    "removal_before_the_horizon": 5,
    "upload_without_the_look_afterwards": 7,
    "entries_of_every_history_count": 8,
    "no_look_after_the_create": 8,
    "no_look_before_an_entry_is_sent_again": 16,
}
"""Where the search begins, if not with the first seed, so that it is short: a fault is seen with
this seed, or a later one."""
