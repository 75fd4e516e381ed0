"""Transactions against a model of plain Python rows: whatever happened before, a reader sees the
model's rows, each with the write that it came from, by the index and, once time has passed, by a
listing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from blockstore.operations.access import Access
from blockstore.operations.rewrite import rewrite
from tests.blockstore.operations.lake import Lake, Row, Rows, small_chunks, table_of
from tests.support.examples import few

EXAMPLES = few(50)


@pytest.fixture(autouse=True)
def blocks_of_several_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@dataclass(frozen=True)
class Condition:
    """A condition as SQL, and what it says of a row: True, False, or None for unknown."""

    sql: str
    says: Callable[[Row, str, str | None], bool | None]


def _less(number: int | None, limit: int) -> bool | None:
    return None if number is None else number < limit


def _negated(said: bool | None) -> bool | None:
    return None if said is None else not said


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    limit = draw(st.integers(0, 6))
    key = draw(st.sampled_from("abc"))
    return draw(
        st.sampled_from(
            [
                Condition(f"number < {limit}", lambda row, source, label: _less(row[1], limit)),
                Condition(
                    f"NOT (number < {limit})",
                    lambda row, source, label: _negated(_less(row[1], limit)),
                ),
                Condition("number IS NULL", lambda row, source, label: row[1] is None),
                Condition(f"key = '{key}'", lambda row, source, label: row[0] == key),
                Condition(
                    f"key = '{key}' OR number < {limit}",
                    lambda row, source, label: row[0] == key or _less(row[1], limit),
                ),
                Condition(
                    f"key <> '{key}' AND number < {limit}",
                    lambda row, source, label: row[0] != key and _less(row[1], limit),
                ),
                Condition(
                    "site = 'x'", lambda row, source, label: None if label is None else label == "x"
                ),
                Condition(
                    f"site = 'x' AND key = '{key}'",
                    lambda row, source, label: (
                        None if label is None else label == "x" and row[0] == key
                    ),
                ),
                Condition(
                    f"site = 'x' OR number < {limit}",
                    lambda row, source, label: label == "x" or _less(row[1], limit),
                ),
                Condition("true", lambda row, source, label: True),
            ]
        )
    )


rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 6)), st.just(0.5)),
    min_size=1,
    max_size=7,
)


@dataclass
class Model:
    """Rows in view, rows that are durable and unpublished, by source; the rows of every version."""

    seen: Rows = field(default_factory=Counter)
    waiting: dict[str, list[Row]] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    versions: dict[int, Rows] = field(default_factory=dict)

    def keep(self, stays: Callable[[Row, str], bool]) -> int:
        """Drop rows; returns how many were in view."""
        before = self.seen.total()
        self.seen = Counter(
            {(row, source): n for (row, source), n in self.seen.items() if stays(row, source)}
        )
        kept = {
            source: [row for row in own if stays(row, source)]
            for source, own in self.waiting.items()
        }
        for source, own in list(self.waiting.items()):
            if len(kept[source]) < len(own):
                # Touched: what stays of it was published first.
                del self.waiting[source]
                self.seen.update((row, source) for row in kept[source])
        return before - self.seen.total()


class Machine:
    """The table and its model, side by side."""

    def __init__(self, draw: st.DataObject, work_dir: Path) -> None:
        self.draw = draw
        self.lake = Lake()
        self.model = Model()
        self.work_dir = work_dir

    def begin(self) -> None:
        """Two levels of merges, one stream of its own, and a write that was not published."""
        for label in (None, None, "x"):
            for _ in range(2):
                self._append(publish=True, label=label)
            self.merge()
        self._append(publish=False, label=None)

    def step(self) -> None:
        acts = [
            "append",
            "append",
            "unpublished",
            "merge",
            "merge",
            "delete",
            "overwrite",
            "replace",
            "revert",
        ]
        acts += ["restore", "rewrite", "publish"]
        act = self.draw.draw(st.sampled_from(acts), label="act")
        self.lake.world.clock.sleep(1)
        getattr(self, act)()
        self.model.versions[self.lake.open().log.state.version] = self.model.seen.copy()
        assert self.lake.rows() == self.model.seen
        self.lake.check()

    def append(self) -> None:
        self._append(publish=True)

    def unpublished(self) -> None:
        self._append(publish=False)

    def _append(self, publish: bool, label: str | None = "?") -> None:
        new = self.draw.draw(rows)
        if label == "?":
            label = self.draw.draw(st.sampled_from([None, "x", "y"]))
        done = self.lake.append(*new, publish=publish, **({} if label is None else {"site": label}))
        assert done.ulid is not None
        self.model.labels[done.ulid] = label
        if publish:
            self.model.seen.update((row, done.ulid) for row in new)
        else:
            self.model.waiting[done.ulid] = new

    def publish(self) -> None:
        if self.model.waiting:
            source = self.draw.draw(st.sampled_from(sorted(self.model.waiting)))
            assert self.lake.open().append(table_of([]), resume=source).published
            self.model.seen.update((row, source) for row in self.model.waiting.pop(source))

    def merge(self) -> None:
        live = list(self.lake.open().log.state.blocks)
        if live:
            one = self.draw.draw(st.sampled_from(live))
            alike = [block.ulid for block in live if block.meta.stream == one.meta.stream]
            event(
                f"merged {min(len(alike), 3)} blocks of level up to "
                f"{min(3, max(b.meta.level for b in live))}"
            )
            self.lake.merge(self.work_dir, alike)

    def delete(self) -> None:
        condition = self._condition()
        table = self.lake.open()
        planned = table.delete(condition.sql, dry_run=True)
        done = table.delete(condition.sql)
        waited = set(self.model.waiting)
        gone = self.model.keep(lambda row, source: not self._meets(condition, row, source))
        if waited == set(self.model.waiting) and done.rows_removed is not None:
            assert done.rows_removed == gone == planned.rows_removed
            assert (done.version is None) == (not gone)
            assert {*planned.removed, *planned.rewritten} == {*done.removed, *done.rewritten}
        event(f"delete: {len(done.removed) > 0} whole, {len(done.rewritten) > 0} in part")

    def overwrite(self) -> None:
        condition = self._condition()
        label = self.draw.draw(st.sampled_from([None, "x"]))
        fresh = [row for row in self.draw.draw(rows) if condition.says(row, "", label) is True]
        labels = {} if label is None else {"site": label}
        done = self.lake.open().overwrite(table_of(fresh), where=condition.sql, labels=labels)
        self.model.keep(lambda row, source: not self._meets(condition, row, source))
        self._overwritten(done.added, fresh, label)

    def replace(self) -> None:
        fresh = self.draw.draw(st.one_of(st.just([]), rows))
        done = self.lake.open().overwrite(table_of(fresh))
        self.model.keep(lambda row, source: False)
        self._overwritten(done.added, fresh, None)

    def _overwritten(self, added: tuple[str, ...], fresh: list[Row], label: str | None) -> None:
        assert len(added) == bool(fresh)
        for ulid in added:
            self.model.labels[ulid] = label
            self.model.seen.update((row, ulid) for row in fresh)

    def revert(self) -> None:
        known = sorted({source for _, source in self.model.seen} | set(self.model.waiting))
        if known:
            sources = self.draw.draw(
                st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True)
            )
            table = self.lake.open()
            planned = table.revert(*sources, dry_run=True)
            counts = {source: self._count(source) for source in sources if self._count(source)}
            assert dict(planned.rows) == counts
            done = table.revert(*sources)
            assert (done.hidden, done.removed) == (planned.hidden, planned.removed)
            assert {**counts, **done.rows} == counts
            for source in sources:
                self.model.waiting.pop(source, None)
            self.model.keep(lambda row, source: source not in sources)
            again = table.revert(*sources)
            assert again.version is None or not done.rows

    def restore(self) -> None:
        version = self.draw.draw(st.sampled_from(sorted(self.model.versions) or [1]))
        done = self.lake.open().restore(version=version)
        before = self.model.seen.total()
        self.model.seen = self.model.versions.get(version, Counter()).copy()
        if done.rows is not None:
            assert done.rows == self.model.seen.total() - before
        event(f"restore: {'something' if done.version else 'nothing'}")
        assert not [
            name for name in self.lake.open().log.state.tags if name.startswith("_restore_")
        ]

    def rewrite(self) -> None:
        live = self.lake.live()
        if live:
            table = self.lake.open()
            rewrite(
                Access.of(table.bucket, table.world, table.log),
                [self.draw.draw(st.sampled_from(live))],
                reason="test",
            )

    def by_listing(self) -> None:
        """Once time has passed a listing shows the same, and what was not published: nothing comes
        back."""
        self.lake.world.clock.sleep(7 * 24 * 3600)
        waiting = Counter(
            (row, source) for source, own in self.model.waiting.items() for row in own
        )
        assert self.lake.rows(discovery="list") == self.model.seen + waiting

    def _condition(self) -> Condition:
        live = [block.meta.labels for block in self.lake.open().log.state.blocks]
        known = any(live) or any(self.model.labels[source] for source in self.model.waiting)
        condition = self.draw.draw(conditions())
        while "site" in condition.sql and not known:
            condition = self.draw.draw(conditions())
        return condition

    def _meets(self, condition: Condition, row: Row, source: str) -> bool:
        return condition.says(row, source, self.model.labels[source]) is True

    def _count(self, source: str) -> int:
        return sum(n for (_, own), n in self.model.seen.items() if own == source)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_reader_sees_the_rows_of_the_model_whatever_was_done(data: st.DataObject) -> None:
    with TemporaryDirectory() as work_dir:
        machine = Machine(data, Path(work_dir))
        machine.begin()
        for _ in range(data.draw(st.integers(3, 10), label="steps")):
            machine.step()
        machine.by_listing()
