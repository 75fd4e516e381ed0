"""What a process sees of the store: every request is a turn given up, and may meet a fault.

Rules:
- A request waits for its turn, then the fault is drawn, then it is applied completely or not at
  all.
- A request without a response costs its sender some seconds; the others continue meanwhile.
- Before each request the history may be replaced (``replaced_history.py``).
- A request that takes away or swaps, decided by a look from before the history was replaced, is
  undone by the person who replaced it: its sender gets a response as if it was done. Nothing in the
  bucket could distinguish it from a right one.
- So is a DELETE that breaks a promise and that its sender, having decided to send it, did not send
  for more than half a ``delete_delay``: between its last look and its request a process cannot look
  again. Any other that breaks a promise is the finding.
- A ``delete`` is one request for all its keys, carried out in any order; one whose response is lost
  may have been carried out in part. A writer is one request when it is closed.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from blockstore.bucket.api import Bucket, NotModified, Object, ObjectInfo
from blockstore.errors import (
    BlockstoreError,
    Contended,
    NoSpace,
    Throttled,
    Unanswered,
    Unavailable,
)
from blockstore.names import DELETION_MARK, META, parse_entry, split_block_key
from blockstore.simulation.faults import Ask, Fault
from blockstore.simulation.oracle.books import brought_back, remembered
from blockstore.simulation.process import Process
from blockstore.simulation.report import Section
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.violation import Violation

A = TypeVar("A")

UNDONE = "undone by a person: a delete long after its last look"
"""The event of a DELETE that was sent too late, and was wrong by then."""
_COMMIT = "put_if_absent "
_SEALS = (f"/{META}", f"/{DELETION_MARK}")
_LATE_MS = (1_000, 72 * HOUR_MS)
_LATE_BLOCK_MS = (1_000, 20 * HOUR_MS)
_TIMEOUT_MS = (200, 20_000)


class SimulatedBucket(Bucket):
    """One process's way to the store."""

    def __init__(self, process: Process) -> None:
        self.url = process.stage.store.url
        self._process = process
        self._stage = process.stage
        self._store = process.stage.store

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return self._ask(
            Ask.READ, "get", key, lambda: self._store.get(key, if_none_match=if_none_match)
        )

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._ask(
            Ask.READ, "get_range", key, lambda: self._store.get_range(key, start, length)
        )

    def head(self, key: str) -> ObjectInfo:
        return self._ask(Ask.READ, "head", key, lambda: self._store.head(key))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        draw = self._process.draw

        def look() -> builtins.list[ObjectInfo]:
            return self._store.listed(prefix, start_after, recursive, draw)[:at_most]

        try:
            ask = Ask.LIST if split_block_key(prefix + META) is None else Ask.LOOK
            return iter(self._ask(ask, "list", prefix, look))
        except _Midway:
            found = look()
            return self._broken(found[: draw.integer(0, len(found))], prefix)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        return self._ask(Ask.READ, "prefixes", prefix, lambda: self._store.prefixes(prefix))

    def now_ms(self) -> int:
        return self._ask(Ask.READ, "now_ms", "", self._store.now_ms)

    def put(self, key: str, data: bytes) -> str:
        ask = Ask.SEAL if key.endswith(_SEALS) else Ask.PUT
        return self._ask(ask, "put", key, lambda: self._store.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> str:
        self._process.send(key, data)
        return self._ask(
            Ask.CREATE, "put_if_absent", key, lambda: self._store.put_if_absent(key, data)
        )

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self._ask(
            Ask.SWAP, "put_if_match", key, lambda: self._store.put_if_match(key, data, etag)
        )

    def writer(self, key: str) -> _Writer:
        return _Writer(self, key)

    def delete(self, keys: Iterable[str]) -> None:
        draw = self._process.draw
        wanted = draw.shuffled(sorted(keys))
        part = wanted[: draw.integer(1, len(wanted))] if wanted else []
        named = f"{wanted[0]} and {len(wanted) - 1} more" if len(wanted) > 1 else "".join(wanted)
        whole, some = self._in_time(wanted), self._in_time(part)
        self._ask(
            Ask.DELETE, "delete", named, whole, in_part=self._decided(Ask.DELETE, named, some)
        )

    def refuses_stale_writes(self) -> bool:
        return True

    def keeps_versions(self) -> bool:
        return False

    def _ask(
        self,
        ask: Ask,
        method: str,
        key: str,
        apply: Callable[[], A],
        *,
        in_part: Callable[[], object] | None = None,
    ) -> A:
        """One request, and what becomes of it;

        ``in_part`` is what was applied where no process gets the response.
        """
        process, stage = self._process, self._stage
        scheduler = stage.scheduler
        scheduler.turn()
        scheduler.steps += 1
        scheduler.now_ms += process.draw.integer(1, 30)
        what = f"{method} {key}"
        if stage.replacements is not None:
            stage.replacements.pass_by(ask, key)
            apply = self._decided(ask, key, apply)
        fault = process.meets(ask)
        stalls_later = fault is Fault.STALLED and process.draw.chance(0.5)
        if fault in (Fault.KILLED_BEFORE, Fault.STALLED, Fault.OUTAGE):
            self._note(what, fault)
            stage.report.count(Section.FAULTS, fault)
            if not stalls_later:
                process.suffer(fault)
            fault = Fault.NONE
        if fault is Fault.NONE and stage.faults.on and scheduler.now_ms < process.silent_until:
            fault = Fault.READ_FAILS if ask in (Ask.READ, Ask.LIST) else Fault.REQUEST_LOST
        if fault is Fault.NONE:
            answer = self._answered(what, apply)
            if stalls_later:
                process.suffer(Fault.STALLED)
            return answer
        self._note(what, fault)
        stage.report.count(Section.FAULTS, fault)
        return self._faulty(fault, what, apply, in_part or apply)

    def _faulty(
        self, fault: Fault, what: str, apply: Callable[[], A], unheard: Callable[[], object]
    ) -> A:
        process, stage = self._process, self._stage
        if fault is Fault.LIST_FAILS:
            raise _Midway
        if fault is Fault.RESENT:
            self._apply(apply)
            return self._answered(what, apply)
        if fault in (Fault.LATE, Fault.KILLED_SENDING):
            limits = _LATE_MS if split_block_key(what.partition(" ")[2]) is None else _LATE_BLOCK_MS
            stage.scheduler.later(
                process.draw.span(*limits), lambda: self._arrive(what, apply), what
            )
        if fault in (Fault.ANSWER_LOST, Fault.KILLED_AFTER):
            self._apply(unheard)
        if fault in (Fault.KILLED_AFTER, Fault.KILLED_SENDING):
            process.die()
        if fault is Fault.THROTTLED:
            raise Throttled(f"{what}: 503 SlowDown")
        if fault is Fault.CONTENDED:
            raise Contended(f"{what}: 409 ConditionalRequestConflict")
        if fault is Fault.NO_SPACE:
            raise NoSpace(f"{what}: no space left")
        stage.scheduler.sleep(process.draw.span(*_TIMEOUT_MS))
        lost = Unavailable if fault is Fault.READ_FAILS else Unanswered
        raise lost(f"{what}: no answer")

    def _answered(self, what: str, apply: Callable[[], A]) -> A:
        try:
            answer = apply()
        except (BlockstoreError, NotModified) as error:
            self._note(what, type(error).__name__)
            raise
        except Violation as broken:
            self._note(what, "breaks a promise")
            self._stage.scheduler.fail(broken)
        self._note(what, "ok")
        return answer

    def _decided(self, ask: Ask, key: str, apply: Callable[[], A]) -> Callable[[], A]:
        """The request as it is applied, whenever that is: as one that was decided, or sent, in an
        era that may be over by then."""
        process, stage = self._process, self._stage
        looked = process.look(key) if ask in (Ask.READ, Ask.LIST) else None
        decided, begun = (
            process.decided_in(ask, key),
            min(process.oldest, process.sent.get(key, stage.era)),
        )

        def applied() -> A:
            if looked is not None:
                looked()
                return apply()
            stage.stale, stage.crossing = decided < stage.era, begun < stage.era
            try:
                if stage.stale and ask in (Ask.DELETE, Ask.SWAP):
                    stage.report.count(Section.EVENTS, f"undone by a person: a {ask} of before")
                    return cast(A, "undone")
                answer = apply()
                if ask is Ask.CREATE:
                    process.created(key)
                return answer
            finally:
                stage.stale = stage.crossing = False

        return applied

    def _in_time(self, keys: builtins.list[str]) -> Callable[[], None]:
        """A DELETE that its sender has decided to send just now, as it is applied: if that is much
        later, a person undoes what is wrong of it."""
        stage = self._stage
        latest_ms = stage.scheduler.now_ms + 500 * stage.properties.delete_delay_s

        def applied() -> None:
            if stage.scheduler.now_ms <= latest_ms:
                self._store.delete(keys)
                return
            copy, books = stage.store.copy(), remembered(stage.judge, stage.ledger)
            try:
                self._store.delete(keys)
            except Violation:
                stage.store.put_back(copy, fresh=False)
                brought_back(stage.judge, stage.ledger, books)
                stage.report.count(Section.EVENTS, UNDONE)

        return applied

    def _apply(self, apply: Callable[[], object]) -> None:
        """Apply a request whose response no process gets."""
        try:
            apply()
        except (BlockstoreError, NotModified):
            pass
        except Violation as broken:
            self._stage.scheduler.fail(broken)

    def _arrive(self, what: str, apply: Callable[[], object]) -> None:
        """A request arrives that its sender has given up."""
        try:
            apply()
            outcome = "ok"
        except BlockstoreError as error:
            outcome = type(error).__name__
        self._note(f"(late) {what}", outcome)

    def _broken(self, found: builtins.list[ObjectInfo], prefix: str) -> Iterator[ObjectInfo]:
        yield from found
        raise Unavailable(f"list {prefix}: no answer after {len(found)} keys")

    def _note(self, what: str, outcome: str) -> None:
        self._stage.note(self._process.name, f"{what}: {outcome}")
        if what.startswith(_COMMIT) and parse_entry(what[len(_COMMIT) :]) is not None:
            self._stage.report.count(Section.ANSWERS, outcome)


class _Midway(Exception):
    """A listing is to fail after some keys."""


class _Writer:
    """An object on its way; a PUT once it is closed, and again if that had no response."""

    def __init__(self, bucket: SimulatedBucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._pieces: list[bytes] = []
        self._open = True

    def write(self, data: bytes | memoryview, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def close(self) -> None:
        if self._open:
            self._bucket.put(self._key, b"".join(self._pieces))
            self._open = False

    def abort(self) -> None:
        self._open = False
