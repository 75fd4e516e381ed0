"""The formulas of ``blockstore cost``: each constant is what a counting bucket sees, and the page
quotes them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.cli.main import run
from blockstore.compactor.process.keeper import CLEAN, COMPACT, INDEX
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid
from blockstore.service import cost as formulas
from blockstore.service.billing import CLASS_OF, Billed
from blockstore.service.cost import Lake, Requests, cost
from blockstore.table import Table
from tests.compactor.simulated import QUIET, Simulated, without_rest
from tests.compactor.tended import Tended
from tests.reader.tables.test_many import lake as many
from tests.reader.tables.test_many import minutes

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


def counted(meter: Billed) -> Requests:
    found: Counter[str] = Counter()
    for method, number in meter.counts.items():
        found[CLASS_OF[method]] += number
    return Requests(write=found["write"], read=found["read"], delete=found["delete"])


def metered(lake: Tended, bucket: Bucket) -> tuple[Billed, Table]:
    meter = Billed(bucket)
    table = Table.open_bucket(meter, lake.world)
    return meter, table


def test_appends_with_their_checkpoints_are_as_the_formula_says(lake: Tended) -> None:
    lake.create("a")
    meter, table = metered(lake, lake.place("a"))
    lake.append("a", "first", table)
    meter.reset()
    for number in range(formulas.CHECKPOINT_EVERY):
        lake.append("a", f"w{number}", table)
    expected = formulas.APPEND.times(formulas.CHECKPOINT_EVERY).plus(formulas.CHECKPOINT)
    assert counted(meter) == expected


@pytest.mark.parametrize("blocks", [2, 8, 16])
def test_a_merge_is_as_the_formula_says(lake: Tended, blocks: int) -> None:
    lake.create("a")
    lake.fill("a", blocks)
    meter = Billed(lake.bucket)
    settings = Settings(
        tier_blocks=blocks, work_dir=lake.work_dir, memory_bytes=64 << 20, concurrency=1
    )
    process = lake.process(meter, settings=settings)
    process.look()
    process.turn("a", COMPACT)
    lake.fill("a", blocks)
    lake.world.clock.sleep(301)
    meter.reset()
    process.turn("a", COMPACT)
    assert counted(meter) == formulas.MERGE.plus(formulas.MERGED_INPUT.times(blocks))


def test_removing_merged_blocks_is_as_the_formula_says(tmp_path: Path) -> None:
    spent = []
    for blocks in (10, 30):
        lake = Tended(tmp_path)
        lake.create("a")
        lake.fill("a", blocks)
        meter = Billed(lake.bucket)
        process = lake.process(meter)
        process.look()
        process.turn("a", COMPACT)
        process.turn("a", COMPACT)
        meter.reset()
        for _ in range(6):
            lake.world.clock.sleep(86_400)
            process.turn("a", INDEX)
            process.turn("a", CLEAN)
        spent.append(counted(meter))
    few, many = spent
    one = formulas.REMOVED_BLOCK
    assert (many.write - few.write) / 20 == pytest.approx(one.write, abs=0.2)
    assert (many.read - few.read) / 20 == pytest.approx(one.read, abs=1.0)


def test_a_table_that_is_kept_awake_is_as_the_formula_says(lake: Tended) -> None:
    lake.create("a")
    process = Simulated(lake, loops=without_rest())
    process.run(2)
    process.requests.reset()
    process.run(1)
    listing = Requests(write=formulas.LISTINGS_AN_HOUR)
    found = counted(process.requests)
    expected = formulas.AWAKE_HOUR.plus(listing)
    assert found.write == pytest.approx(expected.write, rel=0.02)
    assert found.read == pytest.approx(expected.read, rel=0.02)


def test_quiet_tables_are_as_the_formula_says(lake: Tended) -> None:
    tables, days = 3, 6
    for number in range(tables):
        lake.create(f"t{number}")
    process = Simulated(lake, loops=QUIET)
    process.run(3.1 * 24)
    process.requests.reset()
    process.run(days * 24)
    a_month = formulas.resting(Lake(tables=tables, writers=0))
    found = counted(process.requests).times(formulas.MONTH_DAYS / days)
    assert found.write == pytest.approx(a_month.write, rel=0.05)
    assert found.read == pytest.approx(a_month.read, rel=0.05)


def test_a_table_that_changes_each_hour_is_about_as_the_formula_says(lake: Tended) -> None:
    lake.create("a")
    settings = Settings(tier_blocks=100, work_dir=lake.work_dir, concurrency=1)
    process = Simulated(lake, settings=settings)
    process.run(5)
    process.requests.reset()
    for number in range(8):
        lake.append("a", f"w{number}")
        process.run(1)
    an_append = (counted(process.requests).total - 8 * formulas.LISTINGS_AN_HOUR) / 8
    assert an_append == pytest.approx(formulas.CHANGE.total, rel=0.25)


def test_a_gateway_is_as_the_formula_says(tmp_path: Path) -> None:
    scene = many(80, "cost")
    scene.settle()
    asked = [f"t{number:05}" for number in range(10)]
    minutes(scene, 2, asked)
    found = sum(minutes(scene, 20, asked)) / 20
    lake = Lake(tables=80, asked_tables=10, gateways=1, writers=0)
    assert found == pytest.approx(formulas.polling(lake).total / formulas.MINUTES, rel=0.15)


def test_ten_thousand_quiet_tables_cost_less_than_three_requests_an_hour_each() -> None:
    quiet = formulas.resting(Lake(tables=10_000, writers=0)).total / formulas.HOURS
    assert quiet <= 30_000


@pytest.mark.parametrize(
    "given", [{"tables": 0}, {"writers": -1}, {"appends_a_day": -1.0}, {"size_bytes": -1.0}]
)
def test_counts_that_cannot_be_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(Invalid):
        Lake(**given)  # type: ignore[arg-type]


def test_more_of_anything_never_costs_less() -> None:
    base = Lake(tables=100, writers=50, appends_a_day=24, asked_tables=5, gateways=2)
    for name in ("writers", "appends_a_day", "asked_tables", "gateways", "blocks", "size_bytes"):
        more = replace(base, **{name: 10 * getattr(base, name) + 1})
        assert cost(more).total_dollars >= cost(base).total_dollars, name


def test_the_verb_prints_the_sums_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["cost", "--tables", "10000", "--writers", "20", "--stored", "2TiB"]) == 0
    printed = capsys.readouterr().out
    assert "compactor, quiet tables" in printed
    assert "storage" in printed
    assert "memory: a gateway" in printed
    assert run(["cost", "--tables", "0"]) != 0
    assert "tables is 0" in capsys.readouterr().err


def test_the_page_quotes_the_constants_and_the_sums() -> None:
    text = PAGE.read_text()
    for name, value in (
        ("an append", formulas.APPEND),
        ("a checkpoint, with every 64th entry", formulas.CHECKPOINT),
        ("a merge, besides its inputs", formulas.MERGE),
        ("each input of a merge", formulas.MERGED_INPUT),
        ("the removal of a merged block", formulas.REMOVED_BLOCK),
        ("an hour of a table that is kept awake", formulas.AWAKE_HOUR),
        ("a look at a resting table", formulas.RESTING_LOOK),
        ("all passes once", formulas.ROUND),
        ("an append to a resting table", formulas.CHANGE),
        ("a poll of a gateway", formulas.POLL),
    ):
        row = f"| {name} | {value.write:.0f} | {value.read:.0f} | {value.delete:.0f} |"
        assert row in text, row
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+) \| (.+) \|$", text, re.M)
    assert len(rows) >= 5
    for tables, writers, asked, gateways, sums in rows:
        found = cost(
            Lake(
                tables=int(tables.replace(",", "")),
                writers=int(writers.replace(",", "")),
                asked_tables=int(asked),
                gateways=int(gateways),
            )
        )
        parts = [f"{found.dollars[part]:,.2f}" for part in found.requests]
        memory = [f"{one / 2**20:,.0f}" for one in (found.gateway_bytes, found.compactor_bytes)]
        assert sums.split(" | ") == [*parts, *memory], (tables, writers)


@pytest.mark.parametrize("number", [-1.0, float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(number: float) -> None:
    for name in ("appends_a_day", "size_bytes"):
        with pytest.raises(Invalid, match="0 or more, and finite"):
            Lake(**{name: number})
    with pytest.raises(Invalid, match="tables is 0, expected a number from 1"):
        Lake(tables=0)
