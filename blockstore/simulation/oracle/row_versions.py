"""What each operation may do to rows that have an identity, and what blocks must hold of
them: a map from identity to its versions.

Promises:
- An entry of changes holds exactly what its operation means by the rows that it has read
  (``changes.py``). Rows that it read, and changes, are as they were when it read them: the first of
  two writers wins.
- What is current by the live blocks is what the last operation on each row made of it. Merges,
  purges and promotions change no row.
- A row id is given once. Every version of a row is the same wherever a merge carries it, and is in
  one live block.
- A former version is kept as ``row_history`` says: only retention, or a person, takes it away, and
  retention not before its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blockstore.format.block import BlockKind
from blockstore.format.properties import FOREVER_S, Isolation
from blockstore.index.entry import Entry, Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.simulation.changes import Chain, Counted, Effect, Event, Past, RowOperation
from blockstore.simulation.ground import Ground, Kind
from blockstore.simulation.images import Held, Image, Row, visible
from blockstore.simulation.ledger import ROWS, Intent
from blockstore.simulation.oracle.directories import Directories
from blockstore.simulation.oracle.meaning import Meaning, Rows, Version
from blockstore.simulation.report import Section
from blockstore.simulation.schedule import HOUR_MS
from blockstore.simulation.violation import Violation

_CLOCKS_MS = 2 * HOUR_MS
"""How far the clocks of two processes may be apart."""


@dataclass(frozen=True, slots=True)
class _In:
    """What a live block holds."""

    kind: BlockKind
    rows: tuple[Held, ...]


class VersionMeaning(Meaning):
    """Judges the entries of a run on a table whose rows have an identity."""

    remembered = (*Meaning.remembered, "chains", "held", "_entered_ms")

    def __init__(self, ground: Ground, directories: Directories) -> None:
        super().__init__(ground, directories)
        self.chains: dict[int, Chain] = {}
        """All that ever happened to each row."""
        self.held: dict[str, _In] = {}
        """What the live blocks hold."""
        self._entered_ms: dict[int, int] = {}
        """When each entry came that changed rows."""

    @property
    def kept(self) -> frozenset[tuple[int, int]]:
        """The versions of rows that can be fetched: identity and version."""
        return frozenset(
            (one.identity, one.version) for block in self.held.values() for one in block.rows
        )

    def image(self, identity: int, version: int) -> Image | None:
        """What a version of a row holds. Raises Violation if it never was."""
        for event in self.chains.get(identity, ()):
            if event.version == version:
                return event.image
        raise Violation(f"row {identity} never had a version {version}")

    def follow(
        self, before: Version, entry: Entry, state: State, versions: Mapping[int, Version]
    ) -> Rows:
        if entry.excepts:
            raise Violation(f"entry {entry.id} hides sources, and rows have an identity")
        if not entry.add and not entry.remove:
            self._found_nothing(entry)
            return before.rows
        removed = {ulid: self.held[ulid] for ulid in entry.remove if ulid not in state.blocks}
        added = {block.ulid: self._enters(block.ulid, state) for block in entry.add}
        changed = self._expected(before, entry, state, added, removed, versions)
        rows = _with(before.rows, changed)
        self._check_versions(entry, before.state, state, added)
        for ulid in removed:
            del self.held[ulid]
        self.held.update(added)
        self._check_kept(entry, before.state, removed)
        found = visible(
            (block.kind is BlockKind.CHANGES, block.rows)
            for block in self.held.values()
            if block.kind is not BlockKind.HISTORY
        )
        if found != dict(rows):
            wrong = sorted(one for one in {*found, *rows} if found.get(one) != rows.get(one))
            raise Violation(
                f"after entry {entry.id} ({entry.operation} {entry.message}) {len(wrong)} rows are "
                f"not as they must be: row {wrong[0]} is {found.get(wrong[0])}, expected "
                f"{rows.get(wrong[0])}, before {before.rows.get(wrong[0])}"
            )
        return rows

    def _found_nothing(self, entry: Entry) -> None:
        """A job that found nothing to do, and can never do anything later."""
        if entry.job is None:
            return
        for intent in self._ground.ledger.intents.values():
            if intent.job == entry.job and intent.rows is not None:
                if intent.versions:
                    raise Violation(
                        f"entry {entry.id} says that {intent.message} had nothing to do, and it is "
                        f"version {intent.versions[0]}"
                    )
                intent.nothing = entry.id
                self._event("rows left as they were, by a job")

    def could_be_nothing(
        self, operation: RowOperation, read: Version, versions: Mapping[int, Version]
    ) -> bool:
        """Whether an operation that reads this version may end without a change."""
        effect = operation.effect(self._past(read, versions))
        return effect is not None and effect.may_be_nothing

    def _enters(self, ulid: str, state: State) -> _In:
        block = state.blocks.get(ulid)
        if block is None:
            raise Violation(f"version {state.version} adds block {ulid}, which is not live")
        content = self._directories.versions(ulid)
        rows = content.held(block.version, block.first_row_id, self._ground.kind)
        return _In(block.meta.kind, rows)

    def _expected(
        self,
        before: Version,
        entry: Entry,
        state: State,
        added: Mapping[str, _In],
        removed: Mapping[str, _In],
        versions: Mapping[int, Version],
    ) -> dict[int, Row | None]:
        """The rows that the entry changes, by what its operation means."""
        if entry.operation == Operation.COMPACT:
            self._event(f"rows merged: {entry.parameters.get('reason')}")
            return {}
        events: dict[int, Event] = {}
        if entry.operation == Operation.EXPIRE:
            self._check_expires(entry, before.state)
            gone = {
                one.identity
                for block in removed.values()
                for one in block.rows
                if before.rows.get(one.identity) == (one.version, one.image)
            }
            gone |= self._tombstones(before, entry, added, gone)
            events = {one: Event(entry.id, None, expired=True) for one in gone}
        else:
            for ulid, block in added.items():
                if block.kind is BlockKind.PLAIN:
                    events |= self._inserted(entry, before.state, ulid, block)
                else:
                    events |= self._changed(before, entry, block, versions)
        self._entered_ms[entry.id] = self._ground.scheduler.now_ms
        for one, event in events.items():
            self.chains[one] = (*self.chains.get(one, ()), event)
        return {
            one: None if event.image is None else Row(entry.id, event.image)
            for one, event in events.items()
        }

    def _inserted(self, entry: Entry, before: State, ulid: str, block: _In) -> dict[int, Event]:
        """A write of new rows, which get ids."""
        writes = {one.image.write for one in block.rows if one.image is not None}
        if len(writes) != 1:
            raise Violation(f"entry {entry.id} appends block {ulid} with rows of writes {writes}")
        (number,) = writes
        write = self._ground.ledger.writes[number]
        whole = [
            Image(write.at_ms + 1000 * row, number, row, write.key(row)) for row in range(ROWS)
        ]
        images = [one.image for one in block.rows if one.image is not None]
        if sorted(images) != whole or len(block.rows) != ROWS:
            raise Violation(f"entry {entry.id} appends block {ulid} with other rows: {images}")
        self._enter(number, entry)
        self._check_new_ids(entry, before, (one.identity for one in block.rows))
        return {one.identity: Event(entry.id, one.image) for one in block.rows}

    def _changed(
        self, before: Version, entry: Entry, block: _In, versions: Mapping[int, Version]
    ) -> dict[int, Event]:
        """The changes of one operation."""
        intent = self._intent(entry)
        if intent.nothing is not None:
            raise Violation(
                f"entry {entry.id} is {intent.message}, which had nothing to do by version "
                f"{intent.nothing}"
            )
        operation = intent.rows
        if operation is None:
            raise Violation(f"entry {entry.id} is {intent.message!r}, which changes no rows")
        if operation.reads is not (entry.read_version is not None):
            raise Violation(
                f"entry {entry.id} ({entry.operation}) says that it read version "
                f"{entry.read_version}"
            )
        read = before if entry.read_version is None else versions[entry.read_version]
        effect = operation.effect(self._past(read, versions))
        if operation.reads and self._is_serializable:
            now = operation.effect(self._past(before, versions))
            self._check_serial(entry, operation, effect, now)
        if effect is None:
            raise Violation(
                f"entry {entry.id} holds {operation}, which had to be refused at version "
                f"{read.state.version}"
            )
        found = {one.identity: one.image for one in block.rows}
        if len(found) < len(block.rows):
            raise Violation(f"entry {entry.id} changes a row twice")
        fresh = [one for one in found if one not in effect.changed]
        if self._ground.kind is Kind.KEYED and fresh:
            raise Violation(f"entry {entry.id} ({operation}) changes key {fresh[0]}")
        self._check_effect(entry, intent, effect, found)
        if fresh:
            images = sorted(image for one in fresh if (image := found[one]) is not None)
            if images != sorted(effect.fresh):
                raise Violation(
                    f"entry {entry.id} ({operation}) adds {images}, expected {effect.fresh}"
                )
            self._check_new_ids(entry, before.state, fresh)
        elif effect.fresh:
            raise Violation(f"entry {entry.id} ({operation}) adds no rows, expected {effect.fresh}")
        known = (found.keys() - set(fresh)) | effect.left
        self._check_untouched(entry, known, read.state.version, operation.reads)
        intent.counted = Counted.of(effect, read.rows, found)
        self._event(f"rows changed: {entry.operation}")
        return {one: Event(entry.id, image) for one, image in found.items()}

    @property
    def _is_serializable(self) -> bool:
        return self._ground.properties.isolation is Isolation.SERIALIZABLE

    def _past(self, read: Version, versions: Mapping[int, Version]) -> Past:
        return Past(
            version=read.state.version,
            rows=read.rows,
            chains=self.chains,
            at={number: version.rows for number, version in versions.items()},
        )

    def _check_serial(
        self, entry: Entry, operation: RowOperation, did: Effect | None, now: Effect | None
    ) -> None:
        """It does what it would do had it read the version before its entry."""
        if did != now:
            raise Violation(
                f"entry {entry.id} ({operation}) read version {entry.read_version} and does {did}; "
                f"after version {entry.id - 1} it would do {now}"
            )

    def _check_effect(
        self, entry: Entry, intent: Intent, effect: Effect, found: Mapping[int, Image | None]
    ) -> None:
        for one in sorted(effect.changed):
            wanted = effect.changed[one]
            if one in found and found[one] == wanted:
                continue
            if one in effect.open and found.get(one) is None:
                continue
            shown = found.get(one) if one in found else "left as it is"
            raise Violation(
                f"entry {entry.id} ({intent.message}: {intent.rows}) makes {shown} of row {one}, "
                f"expected {wanted}"
            )

    def _check_untouched(
        self, entry: Entry, identities: Iterable[int], read: int, reads: bool
    ) -> None:
        """The rows that it has read, and changes or leaves as they are, are as it has read
        them."""
        for one in sorted(identities):
            chain = self.chains.get(one, ())
            if reads and chain and chain[-1].version > read:
                raise Violation(
                    f"entry {entry.id} ({entry.operation} {entry.message}) has read row {one} at "
                    f"version {read}, and version {chain[-1].version} changed it since"
                )

    def _check_new_ids(self, entry: Entry, before: State, identities: Iterable[int]) -> None:
        for one in identities:
            if one < before.next_row_id or one in self.chains:
                raise Violation(f"entry {entry.id} gives row id {one} again")

    def _check_versions(
        self, entry: Entry, before: State, state: State, added: Mapping[str, _In]
    ) -> None:
        """What the blocks of an entry hold are versions of rows that there were."""
        for ulid, block in added.items():
            meta = state.blocks.get_all([ulid])[ulid].meta
            for one in block.rows:
                if meta.level > 1 and one.version >= entry.id:
                    raise Violation(
                        f"entry {entry.id} merges row {one.identity} into version {one.version}"
                    )
                if self.image(one.identity, one.version) != one.image:
                    raise Violation(
                        f"block {ulid} of entry {entry.id} holds {one}, which was another row"
                    )

    def _check_expires(self, entry: Entry, before: State) -> None:
        for ulid in entry.remove:
            block = before.blocks.get(ulid)
            assert block is not None, "the fold refuses to remove what is not live"
            if ulid in self._ground.ledger.condemned:
                continue
            if block.meta.kind is BlockKind.HISTORY:
                self._check_history_is_old(entry, block, before)
            elif not self._ground.expired(block.meta.max_time):
                raise Violation(
                    f"entry {entry.id} expires block {ulid}, which is not old, and which no person "
                    "marked"
                )

    def _check_history_is_old(self, entry: Entry, block: LiveBlock, before: State) -> None:
        """Its versions were replaced longer ago than former versions are kept, or its rows are old
        themselves."""
        kept_s = before.definition.properties.kept_history_s(before.definition.identity)
        if self._ground.expired(block.meta.max_time):
            return
        for one in self.held[block.ulid].rows:
            own = None if one.image is None else one.version  # a tombstone is gone at once
            later = [
                event
                for event in self.chains[one.identity]
                if event.version > one.version or (own is None and event.version == one.version)
            ]
            if not later:
                raise Violation(
                    f"entry {entry.id} expires version {one.version} of row {one.identity}, which "
                    "nothing has replaced"
                )
            age_ms = self._ground.scheduler.now_ms - self._entered_ms[later[0].version]
            if kept_s == FOREVER_S or age_ms < 1000 * kept_s - _CLOCKS_MS:
                raise Violation(
                    f"entry {entry.id} expires version {one.version} of row {one.identity}, which "
                    f"was replaced {age_ms // 1000} s ago, and row_history is {kept_s} s"
                )

    def _tombstones(
        self, before: Version, entry: Entry, added: Mapping[str, _In], gone: set[int]
    ) -> set[int]:
        """The rows that it keeps away: none that is current in a block that stays."""
        rows = [one for block in added.values() for one in block.rows]
        for one in rows:
            if one.image is not None or (one.identity in before.rows and one.identity not in gone):
                raise Violation(
                    f"entry {entry.id} expires other rows than row {one.identity}, and writes {one}"
                )
        return {one.identity for one in rows}

    def _check_kept(self, entry: Entry, before: State, removed: Mapping[str, _In]) -> None:
        """No version of a row is lost, and none is in two blocks."""
        pairs = [(one.identity, one.version) for block in self.held.values() for one in block.rows]
        left = set(pairs)
        if len(left) < len(pairs):
            twice = sorted(one for one in left if pairs.count(one) > 1)
            raise Violation(f"after entry {entry.id} {twice[:5]} are in two blocks")
        kept_s = before.definition.properties.kept_history_s(before.definition.identity)
        if entry.operation != Operation.COMPACT or not kept_s:
            return
        lost = sorted(
            (one.identity, one.version)
            for block in removed.values()
            for one in block.rows
            if (one.identity, one.version) not in left
        )
        if lost:
            raise Violation(
                f"entry {entry.id} loses version {lost[0][1]} of row {lost[0][0]}, and row_history "
                f"is {kept_s} s"
            )

    def _event(self, name: str) -> None:
        self._ground.report.count(Section.EVENTS, name)


def _with(rows: Rows, changed: Mapping[int, Row | None]) -> Rows:
    mutation = rows.mutate()
    for one, row in changed.items():
        if row is not None:
            mutation[one] = row
        elif one in mutation:
            del mutation[one]
    return mutation.finish()
