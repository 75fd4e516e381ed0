"""One operation into the index: decide, create the entry, check the boundary (protocol 3.3).

Invariants:
- The loser of a race for a number applies the winner's entry, decides again, and tries the next.
- Create, then check: an entry counts once the boundary, read after the response to the create, is
  below it (step 5). That read goes to the store. A refused file stays; collection takes it.
- Before every attempt the operation checks whether it is done already. A refusal at step 5 does not
  mean "not applied": a later entry may have inherited it.
- An operation remembers every id at which it sent a payload, from before the PUT until the fate of
  that PUT is certain.
- An unanswered payload is sent again to the same id, and never moved to another id. It says how
  often it was sent: were the same bytes sent twice, the entry could be of two histories, and a look
  at it would not show which. Before that its blocks are looked for too: a copy of the bucket that
  was put back since may lack them.
- What cannot be known is ``Indeterminate``, and names the id and the commit; it is never reported
  as "failed".
- An entry is folded before it is sent: nothing is written that a reader would refuse.
- Before every PUT, and again side by side with step 5, the committer looks whether the entry below
  is still the one that its state ends with. If not, the history was replaced: ``HistoryReplaced``,
  nothing is acknowledged, and nothing more is sent. The look after the PUT is what keeps the
  promise; the one before it keeps stale entries out of the bucket.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from blockstore.bucket.api import Bucket, Object
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockstoreError,
    Conflict,
    Contended,
    Corrupt,
    HistoryReplaced,
    Indeterminate,
    NoSpace,
    SnapshotExpired,
    TableDropped,
    Throttled,
    Unavailable,
)
from blockstore.format.document import sealed
from blockstore.index.assemble import assemble, followed, relinked, resent, signature
from blockstore.index.backoff import Pace
from blockstore.index.blame import who_changed
from blockstore.index.boundary import Boundary
from blockstore.index.change import Change, Committed, Done
from blockstore.index.checkpoint_name import NamedCheckpoint, newer
from blockstore.index.entry import Operation, decode_entry, encode_entry
from blockstore.index.outcomes import already, blocks_of
from blockstore.index.read import IndexReader
from blockstore.index.rules import changed, decide
from blockstore.index.state import State
from blockstore.index.storetime import StoreTime
from blockstore.names import entry_key
from blockstore.world import World

_logger = logging.getLogger(__name__)

A = TypeVar("A")

_NOT_APPLIED = (Throttled, Contended, NoSpace)
"""Errors after which it is certain that this one request changed nothing."""

_MANY = 4
"""Entries whose reading gives others the time to write the next."""
_LOOKS = 4
_REOPENINGS = 4


@dataclass(slots=True)
class Attempt:
    """A change on its way, and the payloads whose fate is not certain yet, by entry id."""

    change: Change
    sent: dict[int, bytes] = field(default_factory=dict)
    fate: Committed | Indeterminate | None = None
    """What became of it, once that is certain: it is in the index, or it will never be known."""


class Committer:
    """Carries changes into one table's index.

    Not shared between threads: ``log.py`` hands it from one to the next.
    """

    def __init__(
        self, bucket: Bucket, world: World, reader: IndexReader, *, program: str, patience_s: float
    ) -> None:
        self._bucket = bucket
        self._clock = world.clock
        self._reader = reader
        self._boundary: Boundary = reader.boundary
        self._time = StoreTime(bucket, world)
        self._pace = Pace(world)
        self._patience_s = patience_s
        self._by = signature(program)
        self.state: State | None = None
        """The last checked state; None makes the next look cold."""
        self._known: State | None = None
        """The last state that there was, also where the next look is cold."""
        self.checkpoint: NamedCheckpoint | None = None
        """The newest checkpoint known, and proven: a hint for readers."""

    def commit(self, attempt: Attempt) -> Committed:
        """Bring the change into the index. Raises Conflict or Invalid (nothing of it is or will be
        in the index), Unavailable (nothing was sent) or Indeterminate (it is not yet known;
        ``attempt`` can be settled or retried)."""
        until = self._clock.monotonic_s() + self._patience_s * attempt.change.races_for
        try:
            for _ in range(_REOPENINGS):
                try:
                    return self._commit(attempt, until)
                except (SnapshotExpired, Corrupt) as error:
                    # Leaves of its root were collected, or are damaged: another look begins at a
                    # root that is whole.
                    known = self.state or self._known
                    if isinstance(error, Corrupt) and (known is None or not known.is_broken):
                        raise
                    _logger.info("%s: it is read again", error)
                    self._drop()
            return self._commit(attempt, until)
        except (Unavailable, AccessDenied) as error:
            if not attempt.sent:
                raise
            # A payload was sent and refused, or found taken: a later entry may have inherited it.
            raise self._unknown(attempt, min(attempt.sent), error) from error

    def _commit(self, attempt: Attempt, until: float) -> Committed:
        losses = 0
        if self._pace.rivals >= 1 and self.state is not None and not attempt.sent:
            known = self.state.version
            self._pace.give_way(left_s=self._patience_s)
            # Looking first costs less than a PUT that must lose.
            self._pace.looked(self._catch_up_closely().version - known)
        while True:
            deadline = min(until, self._clock.monotonic_s() + self._patience_s)
            settled = self.settle(attempt, deadline)
            if settled is not None:
                return settled
            self._pace.begin()
            state = self._checked()
            try:
                decided = decide(state, attempt.change)
            except TableDropped:
                if self.catch_up().version == state.version:
                    raise
                continue  # perhaps it was brought back by now
            except Conflict as error:
                if error.block is None:
                    raise
                since = getattr(attempt.change, "read_version", None)
                by = who_changed(self._reader, state, error.block, since)
                raise changed(state, error.block, by) from None
            if isinstance(decided, Done):
                if not self._look(state):
                    continue
                return already(state, blocks_of(attempt.change), decided)
            draft, left = decided
            entry = assemble(
                state,
                attempt.change,
                draft,
                time_ms=self._time.entry_ms(),
                checkpoint=self.checkpoint,
                by=self._by,
            )
            payload = sealed(encode_entry(entry))
            after = followed(state, entry, payload)
            if not self._look(state):
                continue
            attempt.sent[entry.id] = payload
            if self._send(attempt, entry.id, deadline, fresh=True, after=after, before=state):
                self._pace.won()
                return Committed(
                    version=entry.id,
                    entry=entry,
                    added=tuple(block.meta for block in entry.add),
                    left=left,
                )
            losses += 1
            self._pace.lost()
            self._give_way(attempt, losses, until)

    def _look(self, state: State) -> bool:
        """The look before a PUT, which an append may have made. Where the entry was collected a
        cold read decides; False where it found another state."""
        looks = self._reader.looks
        if looks.were_lately(state) or looks.check(state, looks.look(state)):
            return True
        self._drop()
        return self.catch_up().last == state.last

    def settle(self, attempt: Attempt, deadline: float | None = None) -> Committed | None:
        """Make certain what became of the payloads sent: the result if one was applied, None if
        none was.

        Costs no request where nothing was sent. Raises Indeterminate where it can never be known,
        or not yet.
        """
        until = self._clock.monotonic_s() + self._patience_s if deadline is None else deadline
        unclear = 0
        while attempt.sent and attempt.fate is None:
            state = self._checked()
            done = state.commits.find(attempt.change.commit)
            entry = min(attempt.sent)
            if done is not None:
                if not self._look(state):
                    continue
                attempt.fate = already(state, blocks_of(attempt.change), Done(version=done))
            elif entry > state.version:
                self._send(attempt, entry, until, fresh=False, before=state)
                unclear += 1
                if unclear > 1:
                    self._wait_for_sense(attempt, entry, unclear, until)
            elif state.commits.covers(entry):
                del attempt.sent[entry]
            else:
                self._look_below_window(attempt, entry)
        if isinstance(attempt.fate, Indeterminate):
            raise attempt.fate
        return attempt.fate

    def _wait_for_sense(self, attempt: Attempt, entry: int, tries: int, deadline: float) -> None:
        """A name that is taken, and an entry that is not there, once more: pause, and not
        forever."""
        if entry in attempt.sent:
            if self._clock.monotonic_s() >= deadline:
                odd = Unavailable(
                    f"{entry_key(entry)} was reported as taken and then missing, {tries} times in "
                    "a row"
                )
                raise self._unknown(attempt, entry, odd)
            self._pace.after_silence(tries)

    def _look_below_window(self, attempt: Attempt, entry: int) -> None:
        """Read by itself an id that has left the window, to see whether it holds this change."""
        data = self._ask(attempt, entry, lambda: self._reader.get(entry))
        boundary = self._ask(attempt, entry, self._boundary.read)
        if boundary >= entry:
            del attempt.sent[entry]
            if (
                attempt.change.operation in (Operation.APPEND, Operation.DISCOVER)
                or attempt.change.job
            ):
                return  # its blocks, or its batch, decide when it is drafted again
            attempt.fate = Indeterminate(
                f"commit {attempt.change.commit} ({attempt.change.operation}) was sent as index "
                f"entry {entry}, and the entry was collected before its result was known (the "
                f"boundary is {boundary}): look at the table itself to see whether it was applied",
                commit=attempt.change.commit,
                entry=entry,
            )
            return
        if data is None:
            raise Corrupt(
                f"index entry {entry} ({entry_key(entry)}) is missing above the boundary "
                f"{boundary}: restore it from a copy"
            )
        found = decode_entry(data, entry_id=entry, url=self._reader.bucket.url)
        del attempt.sent[entry]
        if found.commit == attempt.change.commit and entry not in self._checked().void:
            attempt.fate = already(self._checked(), blocks_of(attempt.change), Done(version=entry))

    def _send(
        self,
        attempt: Attempt,
        entry: int,
        deadline: float,
        *,
        fresh: bool,
        before: State,
        after: State | None = None,
    ) -> bool:
        """Steps 4 and 5 for the payload of one id, after the state ``before``: whether it is in the
        index now. ``state`` moves on."""
        put = self._put(attempt, entry, deadline, fresh=fresh, before=before)
        if put is not None:
            above, same = self._ask(attempt, entry, lambda: self._checked_after(entry, before))
            if above and same and after is not None:
                payload = attempt.sent.pop(entry)
                self.state = relinked(before, after, payload)
                self._reader.looks.created(self.state, *put)
                return True
            if above:
                if not same:
                    self._drop()
                self.catch_up()
                return False
            _logger.warning(
                "index entry %s of %s, created by commit %s (%s), is at or below the boundary %s: "
                "a stale write; it was refused and is decided again",
                entry,
                self._bucket.url,
                attempt.change.commit,
                attempt.change.operation,
                self._boundary.seen,
            )
            self._drop()
            return False
        asked_s = self._clock.monotonic_s()
        taken = self._ask(attempt, entry, lambda: self._reader.object(entry))
        above, same = self._ask(attempt, entry, lambda: self._checked_after(entry, before))
        if taken is None or not above or not same:
            self._drop()
            return False
        found = self._reader.decode(taken.data, entry, before.last)
        mine = found.commit == attempt.change.commit and found.follows(before.last)
        self._follow(before, entry, taken, asked_s, mine=mine)
        if not mine or after is not None:
            # Above the boundary: this entry is the history, and ours, if it is another's, is not.
            # Not before it was followed: what fails then is looked up again.
            del attempt.sent[entry]
        return mine

    def _checked_after(self, entry: int, before: State) -> tuple[bool, bool]:
        """Step 5, once the entry is there: whether it is above the boundary, and whether the entry
        below is still the one that the state ends with (False: it was collected). Raises
        HistoryReplaced."""
        try:
            standing, above = self._reader.requests.beside(
                lambda: self._reader.looks.look(before), lambda: self._boundary.check(entry)
            )
        except (Unavailable, AccessDenied):
            raise
        except BlockstoreError:
            self._reader.looks.check_now(before)
            raise
        return above, above and self._reader.looks.check(before, standing)

    def _put(
        self, attempt: Attempt, entry: int, deadline: float, *, fresh: bool, before: State
    ) -> tuple[str, float] | None:
        """Step 4: the new object's ETag, and when it was requested, once the store says created;
        None once it says taken. Looks before it sends again."""
        maybe_applied = not fresh
        tries = 0
        while True:
            try:
                if tries or not fresh:
                    self._reader.check_sent(before, attempt.sent[entry], entry, blocks=not fresh)
                    attempt.sent[entry] = resent(attempt.sent[entry], entry)
                asked_s = self._reader.looks.sends()
                etag = self._bucket.put_if_absent(entry_key(entry), attempt.sent[entry])
                self._pace.answered()
                return etag, asked_s
            except AlreadyExists:
                self._pace.answered()
                return None
            except HistoryReplaced:
                raise
            except BlockstoreError as error:
                self._pace.unanswered()
                maybe_applied |= isinstance(error, Unavailable) and not isinstance(
                    error, _NOT_APPLIED
                )
                tries += 1
                again = isinstance(error, Unavailable) and not isinstance(error, NoSpace)
                if again and self._clock.monotonic_s() < deadline:
                    self._pace.after_silence(tries)
                elif maybe_applied:
                    raise self._unknown(attempt, entry, error) from error
                else:
                    del attempt.sent[entry]
                    raise

    def _give_way(self, attempt: Attempt, losses: int, until: float) -> None:
        """After a lost race: pause, and from the second on read what else has come."""
        if self._clock.monotonic_s() >= until and not attempt.sent:
            raise Unavailable(
                f"commit {attempt.change.commit} ({attempt.change.operation}) lost the race for "
                f"{losses} index entries within {self._patience_s * attempt.change.races_for:g} s; "
                "nothing of it is in the index, try again"
            )
        self._pace.give_way(losses, left_s=until - self._clock.monotonic_s())
        if self._pace.rivals > 1 and self.state is not None:
            self._catch_up_closely()

    def _catch_up_closely(self) -> State:
        """Move to the latest state, and look once more where so many had come that others came
        while they were read."""
        assert self.state is not None, "there is a state to start from"
        state = self.state
        for _ in range(_LOOKS):
            before, state = state.version, self.catch_up(before_create=True)
            if state.version - before < _MANY:
                break
        return state

    def catch_up(self, *, before_create: bool = False) -> State:
        """Move to the latest state: a poll, or a cold read."""
        state = self.state
        loaded = (
            self._reader.cold_after(self._known)
            if state is None
            else self._reader.advance(state, before_create=before_create)
        )
        self.state = loaded.state
        if loaded.asked_s is not None:
            self._reader.looks.noted(loaded.state, loaded.asked_s)
        self.checkpoint = newer(self.checkpoint, loaded.checkpoint)
        return self.state

    def _checked(self) -> State:
        # Leaves of its root may go from then on, and no root that shares them is relied on.
        state = self.state
        if state is not None and (state.oldest_kept < self._boundary.seen or state.is_broken):
            self._drop()
        return self.catch_up() if self.state is None else self.state

    def _drop(self) -> None:
        """Make the next look cold."""
        self._known, self.state = self.state or self._known, None

    def _follow(
        self, before: State, entry: int, taken: Object, asked_s: float, *, mine: bool
    ) -> None:
        """Fold an entry that was checked, or read cold where that does not decide: entries are
        between, or it is void on top of what this process knows."""
        if entry == before.version + 1:
            after = self._reader.follow(before, taken.data)
            if after.void == before.void:
                if not mine:
                    self._reader.looks.check_life(before, after)
                self._reader.looks.remember(after.last, taken.etag)
                self.state = self._reader.looks.noted(after, asked_s)
                return
        self._drop()
        self.catch_up()

    def _ask(self, attempt: Attempt, entry: int, request: Callable[[], A]) -> A:
        """A read on which the fate of a sent payload depends."""
        try:
            return request()
        except (Unavailable, AccessDenied) as error:
            raise self._unknown(attempt, entry, error) from error

    def _unknown(self, attempt: Attempt, entry: int, error: BlockstoreError) -> Indeterminate:
        commit, operation = attempt.change.commit, attempt.change.operation
        return Indeterminate(
            f"it is not known yet whether commit {commit} ({operation}) is index entry {entry}: "
            f"{error}; commit the same operation again, and it is looked up first",
            commit=commit,
            entry=entry,
        )
