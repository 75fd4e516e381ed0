"""What a table without an index is, by its blocks; and which listed blocks can be read under a
definition."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.fields import field_id, required
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize
from blockstore.lifecycle.cover import ChosenBlock, cover
from blockstore.lifecycle.schemas import agreement, derived, fitting_cover, is_mergeable, renumbered
from tests.blockstore.lifecycle.blocks import block

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
TIME = pa.timestamp("us", tz="UTC")


def define(*columns: tuple[str, pa.DataType], **options: object) -> Definition:
    return Definition.create(pa.schema(list(columns)), **options)  # type: ignore[arg-type]


def written(number: int, definition: Definition, sources: set[int] | None = None) -> BlockMeta:
    return replace(
        block(number, sources),
        schema=definition.schema_bytes,
        time_column=definition.time_column,
        sort_by=definition.sort_by,
    )


def told(*metas: BlockMeta) -> Definition:
    found = derived(metas, Properties())
    assert found is not None
    return found


def chosen(*metas: BlockMeta) -> list[ChosenBlock]:
    return [ChosenBlock(meta=meta) for meta in metas]


def columns(definition: Definition) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in definition.schema]


class TestDerived:
    def test_one_schema_comes_back_as_it_was_written(self) -> None:
        mine = Definition.create(
            pa.schema([pa.field("a", INT, nullable=False), pa.field("t", TIME)], {"owner": "me"}),
            time_column="t",
            sort_by=["a"],
        )
        assert told(written(1, mine), written(2, mine)) == mine

    def test_no_block_tells_nothing(self) -> None:
        assert derived((), Properties()) is None

    def test_columns_are_added_at_the_end_and_may_be_null_and_numbers_widen(self) -> None:
        first = Definition.create(pa.schema([pa.field("a", INT, nullable=False), ("b", TEXT)]))
        later = evolve(first, add=[pa.field("c", TEXT)], widen={"a": LONG})
        merged = told(written(2, later), written(1, first))
        assert columns(merged) == [("a", LONG), ("b", TEXT), ("c", TEXT)]
        assert required(merged.schema) == ("a",)
        assert [field_id(field) for field in merged.schema] == [1, 2, 3]

    def test_a_column_that_some_block_lacks_is_not_required(self) -> None:
        narrow, wide = (
            define(("b", TEXT)),
            Definition.create(pa.schema([pa.field("a", INT, False), ("b", TEXT)])),
        )
        assert required(told(written(1, wide), written(2, narrow)).schema) == ()
        assert required(told(written(1, narrow), written(2, wide)).schema) == ()

    def test_writers_who_never_met_agree_by_name_whatever_their_numbers(self) -> None:
        """Both number their second column 2: it is another column all the same."""
        one, other = define(("a", INT), ("b", TEXT)), define(("a", INT), ("c", TEXT), ("b", TEXT))
        first, second = written(1, one), written(2, other)
        merged = told(first, second)
        assert columns(merged) == [("a", INT), ("b", TEXT), ("c", TEXT)]
        ids = {field.name: field_id(field) for field in merged.schema}
        assert len(set(ids.values())) == 3
        assert agreement([first, second]).misfits == {}
        for one in renumbered(chosen(first, second), merged):
            assert {
                f.name: field_id(f) for f in deserialize(one.meta.schema)
            }.items() <= ids.items()
        assert [is_mergeable(meta, merged) for meta in (first, second)] == [True, False]

    def test_the_time_column_and_the_sort_key_are_the_newest_blocks(self) -> None:
        old = define(("a", INT), ("t", TIME), sort_by=["a"])
        new = define(("a", INT), ("t", TIME), time_column="t", sort_by=["t", "a"])
        merged = told(written(2, new), written(1, old))
        assert (merged.time_column, merged.sort_by) == ("t", ("t", "a"))

    def test_a_newest_block_whose_order_cannot_serve_is_passed_over(self) -> None:
        good = define(("a", INT), ("t", TIME), time_column="t", sort_by=["a"])
        bad = replace(written(3, good), time_column="a", sort_by=("a", "a"))
        merged = told(written(1, good), bad)
        assert (merged.time_column, merged.sort_by) == ("t", ("a",))

    def test_nested_columns_keep_the_ids_of_their_parts_apart(self) -> None:
        inner = pa.struct([("x", INT), ("y", INT)])
        one, other = define(("s", inner)), define(("n", INT), ("m", INT))
        merged = told(written(1, one), written(2, other))
        struct = merged.schema.field("s")
        every = [field_id(f) for f in merged.schema] + [field_id(f) for f in struct.type.fields]
        assert None not in every
        assert len(set(every)) == len(every)


class TestContradictions:
    OLD = define(("a", INT), ("b", TEXT))

    @pytest.mark.parametrize(
        ("schema", "told_of"),
        [
            (pa.schema([("a", TEXT)]), "older blocks"),
            (pa.schema([("A", INT)]), "upper and lower case"),
            (pa.schema([("a", pa.float64())]), "older blocks"),
            (pa.schema([("_source", TEXT)]), "reserved"),
            (pa.schema([("a", pa.null())]), "null"),
            (pa.schema([]), "no columns"),
        ],
    )
    def test_a_later_block_that_contradicts_is_named_and_pushes_nobody_out(
        self, schema: pa.Schema, told_of: str
    ) -> None:
        old = written(1, self.OLD)
        strange = replace(block(2), schema=bytes(schema.serialize()))
        merged = told(strange, old)
        assert columns(merged) == columns(self.OLD)
        found, agreed = fitting_cover([old, strange], {})
        assert [one.meta for one in found.chosen] == [old]
        assert told_of in agreed.misfits[strange.ulid]
        assert not is_mergeable(strange, merged)

    def test_a_merge_is_as_old_as_its_oldest_source(self) -> None:
        """Or a contradicting block written in between would push the merge, and with it all older
        rows, out."""
        between = written(5, define(("a", TEXT)))
        merge = written(9, self.OLD, {1, 2})
        assert columns(told(between, merge)) == columns(self.OLD)

    def test_beside_an_index_a_block_must_be_readable_under_its_definition(self) -> None:
        old, new = self.OLD, evolve(self.OLD, add=[pa.field("c", INT)])
        fits, newer = written(1, old), written(2, new)
        found, agreed = fitting_cover([fits, newer], {}, old)
        assert (found.chosen, set(agreed.misfits)) == (tuple(chosen(fits)), {newer.ulid})
        assert fitting_cover([fits, newer], {}, new)[0].chosen == tuple(chosen(fits, newer))

    def test_a_later_block_that_contradicts_pushes_no_block_out_of_the_cover(self) -> None:
        """It says that it holds the older blocks' rows, but they cannot be read out of it."""
        first, second, third = (written(number, self.OLD) for number in (1, 2, 3))
        strange = written(9, define(("a", TEXT)), {1, 2, 8})
        found, agreed = fitting_cover([strange, third, second, first], {})
        assert found.chosen == tuple(chosen(first, second, third))
        assert set(agreed.misfits) == {strange.ulid}
        assert agreed.definition([first], Properties()) == told(first)

    def test_beside_an_index_it_pushes_none_out_either(self) -> None:
        first, strange = written(1, self.OLD), written(9, define(("a", TEXT)), {1, 2})
        found, agreed = fitting_cover([strange, first], {}, self.OLD)
        assert (found.chosen, set(agreed.misfits)) == (tuple(chosen(first)), {strange.ulid})

    def test_of_blocks_with_the_same_oldest_source_the_one_of_the_least_ulid_decides(self) -> None:
        """Whatever the bytes of their schemas are: another language may write the same schema in
        others."""
        texts, numbers = define(("a", TEXT)), define(("a", INT))
        for first, second in ((texts, numbers), (numbers, texts)):
            found = agreement([written(9, second, {1, 2}), written(8, first, {1, 3})])
            assert [one.type for one in found.fields] == [first.schema.field("a").type]
            assert set(found.misfits) == {written(9, second).ulid}

    def test_a_schema_that_is_written_in_other_bytes_is_the_same(self) -> None:
        noted = Definition.create(self.OLD.schema.with_metadata({"by": "another"}))
        assert noted.schema_bytes != self.OLD.schema_bytes
        assert agreement([written(1, noted), written(2, self.OLD)]).misfits == {}

    def test_a_block_that_a_mark_hides_says_nothing_and_keeps_its_sources(self) -> None:
        bad, good = written(1, define(("a", TEXT)), {1, 2}), written(3, self.OLD)
        lost = written(2, self.OLD)
        found, agreed = fitting_cover([bad, good, lost], {bad.ulid: MarkReason.MANUAL})
        assert agreed.misfits == {}
        assert {one.meta.ulid for one in found.chosen} == {bad.ulid, good.ulid}
        assert columns(told(good)) == columns(agreed.definition([good], Properties()) or self.OLD)

    def test_a_snapshot_has_no_column_of_blocks_that_are_not_read(self) -> None:
        wide, narrow = (
            written(1, define(("a", INT), ("gone", TEXT))),
            written(2, define(("a", LONG)), {1, 2}),
        )
        found, agreed = fitting_cover([wide, narrow], {})
        read = [one.meta for one in found.chosen]
        assert read == [narrow]
        definition = agreed.definition(read, Properties())
        assert definition is not None
        assert columns(definition) == [("a", LONG)]


FIELDS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([INT, LONG, TEXT, pa.float32()])),
    min_size=1,
    unique_by=lambda field: field[0],
)


@given(
    st.lists(
        st.tuples(FIELDS, st.sets(st.integers(1, 6), min_size=1, max_size=3)),
        min_size=1,
        max_size=6,
    )
)
def test_everyone_derives_the_same_and_every_block_fits_or_is_named(
    shapes: list[tuple[list[tuple[str, pa.DataType]], set[int]]],
) -> None:
    metas = [
        written(100 + number, define(*fields), sources)
        for number, (fields, sources) in enumerate(shapes)
    ]
    merged = told(*metas)
    assert told(*reversed(metas)) == merged
    found, agreed = fitting_cover(metas, {})
    assert fitting_cover(list(reversed(metas)), {}) == (found, agreed)
    accounted = [*found.chosen, *chosen(*found.superseded)]
    assert {one.meta.ulid for one in accounted} | set(agreed.misfits) == {
        meta.ulid for meta in metas
    }
    eldest = min(metas, key=lambda meta: (meta.sources[0], meta.ulid))
    assert eldest.ulid not in agreed.misfits
    fit = [meta for meta in metas if meta.ulid not in agreed.misfits]
    assert found.sources == {source for meta in fit for source in meta.sources}
    assert found == cover(fit)
    assert columns(told(*fit)) == columns(merged)
    definition = agreed.definition([one.meta for one in found.chosen], Properties())
    assert definition is not None
    for one in renumbered(found.chosen, definition):
        for field in deserialize(one.meta.schema):
            assert field_id(field) == field_id(definition.schema.field(field.name))
