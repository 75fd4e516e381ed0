"""Removing blocks: the one place that deletes their objects, in the order of R7.

Rules:
- R7: the DELETE of meta.json gets its response before anything else of a block is sent;
  deletion-mark.json goes last, after all other responses. A process that dies anywhere leaves a
  directory without a meta.json and with its mark, which the next pass finds and finishes.
- Where listings lag (``consistency = eventual``) each key lags by itself, and one that shows
  meta.json still and the mark no longer would bring back a block that a person took away. There the
  mark is written again before meta.json goes, and stays until a later pass finds it alone and
  ``delete_delay`` old.
- R7 between blocks: a block is begun once all that its decision puts before it are gone.
- R8: before each DELETE a decision is dropped whose listing is older than ``delete_delay``/2
  (``Freshness``). By then another process may have seen what this one did not.
- A mark is looked at again just before its block is begun: withdrawn, or placed again, it is obeyed
  at once.
- Deletes go in batches, and at a bounded rate. One block that cannot be removed is named and stops
  no other block; a store that does not respond for several in a row stops the pass.

Only the compactor and the simulation import this module; the import contracts hold readers and
Spark away from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.errors import AccessDenied, BlockstoreError, ObjectMissing, Unavailable
from blockstore.freshness import Freshness
from blockstore.lifecycle.decide import Decision
from blockstore.lifecycle.listing import Directory
from blockstore.lifecycle.rate import Rate
from blockstore.names import DELETION_MARK, META, deletion_mark_key, object_key
from blockstore.world import World

OLD_LOOK = "the listing on which the decision rests is older than delete_delay/2"
"""Why a decision was dropped (R8)."""

_BATCH = 1_000
"""Objects in one group of blocks, and keys in one delete."""

_SILENT = 3
"""After so many blocks in a row for which the store did not respond, it is the store and not the
blocks."""

_SECOND_MS = 999
"""Some stores list milliseconds and return whole seconds for a HEAD."""


def removal_steps(ulid: str, paths: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """The keys of a block's objects in three steps; each must get its response before the next is
    sent (R7)."""
    steps: tuple[list[str], list[str], list[str]] = ([], [], [])
    for path in sorted(set(paths)):
        steps[{META: 0, DELETION_MARK: 2}.get(path, 1)].append(object_key(ulid, path))
    return steps


@dataclass(slots=True)
class Removed:
    """What became of the removals of one plan."""

    blocks: list[str] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    dropped: dict[str, str] = field(default_factory=dict)
    """Decided, and not carried out: ULID to why. The next pass decides again."""
    failed: dict[str, str] = field(default_factory=dict)
    """The store refused: ULID to what it said."""
    denied: AccessDenied | None = None
    """The first refusal for want of rights among them: no later pass repairs that."""


class Remover:
    """Carries out the removals of one listing."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        directories: Mapping[str, Directory],
        *,
        rate: Rate,
        fresh: Freshness,
        listings_lag: bool = False,
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._directories = directories
        self._rate = rate
        self._fresh = fresh
        self._listings_lag = listings_lag
        self._silent = 0

    def remove(self, decisions: Sequence[Decision]) -> Removed:
        """Remove the blocks, in the order given.

        Raises Unavailable where the store no longer responds.
        """
        result = Removed()
        gone: set[str] = set()
        for group in self._groups(decisions):
            ready = [one for one in group if self._may_begin(one, gone, result)]
            for ulid in self._carry_out([one.ulid for one in ready], result):
                gone.add(ulid)
                objects = self._directories[ulid].objects.values()
                result.blocks.append(ulid)
                result.objects += len(objects)
                result.bytes += sum(info.size for info in objects)
        return result

    def _groups(self, decisions: Sequence[Decision]) -> Iterator[list[Decision]]:
        """Blocks that may go side by side, as many as fill a batch."""
        group: list[Decision] = []
        inside: set[str] = set()
        objects = 0
        for decision in decisions:
            size = len(self._directories[decision.ulid].objects)
            if group and (objects + size > _BATCH or not inside.isdisjoint(decision.after)):
                yield group
                group, inside, objects = [], set(), 0
            group.append(decision)
            inside.add(decision.ulid)
            objects += size
        if group:
            yield group

    def _may_begin(self, decision: Decision, gone: set[str], result: Removed) -> bool:
        before = decision.after - gone
        if before:
            result.dropped[decision.ulid] = (
                f"block {min(before)}, which must go before it, is still there (R7)"
            )
        return not before

    def _carry_out(self, ulids: list[str], result: Removed) -> list[str]:
        """Remove these; returns those that are gone.

        Where they fail together each is tried alone.
        """
        if len(ulids) > 1:
            try:
                return self._delete(ulids, result)
            except BlockstoreError:
                ulids = [ulid for ulid in ulids if ulid not in result.dropped]
        return [ulid for one in ulids for ulid in self._alone(one, result)]

    def _alone(self, ulid: str, result: Removed) -> list[str]:
        try:
            gone = self._delete([ulid], result)
        except BlockstoreError as error:
            result.failed[ulid] = str(error)
            if isinstance(error, AccessDenied):
                result.denied = result.denied or error
            self._silent = self._silent + 1 if isinstance(error, Unavailable) else 0
            if self._silent == _SILENT:
                raise
            return []
        self._silent = 0
        return gone

    def _delete(self, ulids: list[str], result: Removed) -> list[str]:
        """The three steps for these blocks; returns those that are gone."""
        if not self._may_send(len(ulids), ulids, result):
            return []
        looked = self._world.pool.map(
            lambda ulid: mark_changed(self._bucket, self._directories[ulid]), ulids
        )
        changed = dict(zip(ulids, looked, strict=True))
        result.dropped.update({ulid: why for ulid, why in changed.items() if why is not None})
        going = [ulid for ulid, why in changed.items() if why is None]
        for step in zip(*(self._steps(ulid) for ulid in going), strict=True):
            keys = [key for keys in step for key in keys]
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                if not self._may_send(len(batch), going, result):
                    return []
                self._bucket.delete(batch)
        return going

    def _steps(self, ulid: str) -> tuple[list[str], list[str], list[str]]:
        """What is deleted of a block, and in which order; where listings lag its mark is renewed,
        and stays."""
        meta, rest, mark = removal_steps(ulid, self._directories[ulid].objects)
        if self._listings_lag and mark and (meta or rest):
            self._bucket.put(
                deletion_mark_key(ulid), self._bucket.get(deletion_mark_key(ulid)).data
            )
            mark = []
        return meta, rest, mark

    def _may_send(self, requests: int, ulids: list[str], result: Removed) -> bool:
        """Wait for our turn, and then see whether the decisions still hold."""
        self._rate.take(requests)
        if self._fresh.is_over:
            result.dropped.update(dict.fromkeys(ulids, OLD_LOOK))
        return not self._fresh.is_over


def mark_changed(bucket: ReadBucket, directory: Directory) -> str | None:
    """Why the directory's deletion mark is no longer the one that was listed;

    None if it is, or none was.
    """
    judged = directory.objects.get(DELETION_MARK)
    if judged is None:
        return None
    try:
        found = bucket.head(deletion_mark_key(directory.ulid))
    except ObjectMissing:
        return "its mark was withdrawn"
    return "it was marked again" if found.modified_ms > judged.modified_ms + _SECOND_MS else None
