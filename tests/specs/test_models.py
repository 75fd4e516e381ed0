"""The models at their small bounds: the correct ones hold, every broken variant breaks what it must
break."""

from __future__ import annotations

import pytest

from tests.specs.runner import load_runner, needs_spin
from tests.support.tally import tally
from tests.support.tiers import is_fast

runner = load_runner()
MODELS = runner.load()
RUN = ("discovery", "tags", "upload") if is_fast() else tuple(MODELS)
CHECKS = [one for one in runner.checks(MODELS, full=False) if one.model in RUN]

PROTOCOL_FAULTS = frozenset(
    {
        "no boundary check",
        "check before create",
        "cached check accepts",
        "delete before advance",
        "boundary without compare-and-set",
        "retry without step 1",
        "an entry folded without a boundary check",
        "cold read that looks at the boundary only before",
        "checkpoint written before step 5",
        "epoch claim without a holder",
        "GC without the second read",
        "removal that reads the state before the boundary",
        "age instead of the horizon",
        "horizon without the second decision",
        "re-upload with a new source",
        "removal on the list path that counts marked blocks as cover",
        "expire without the live test",
        "two blocks of one source in one discover",
        "a partial mark withdrawn at once",
        "floor tested on the block's ULID only",
        "a list reader that ignores the floor",
        "a create that PUTs the boundary without if-absent",
        "entries that do not name what they were written on",
        "no look at the entry below before the PUT",
        "a look at the entry below before the PUT only",
        "a payload sent again in the same bytes, so that one entry may stand on two histories",
        "an unanswered payload sent again without comparing its prev",
        "the fate of a payload taken for certain after a cold read",
        "a void entry that is not counted as an id",
        "a checkpoint that is not compared with the entry at its version",
        "a boundary advanced without a look at the latest entry",
        "two blocks of changes in one entry, and no order among them",
        "two updates in one entry, each judged by the entries below it",
        "a look that passes over the rows that others inserted under a key",
        "an entry that removes blocks, taken for one that touches nothing",
        "nothing known of entries below the window, taken for nothing touched by them",
        "a restore that brings blocks back",
        "blocks removed although an older version of their rows stays, and no tombstones",
        "a merge that drops a tombstone although an older version lives outside",
        "a plain output although an older version lives outside",
        "the winner by the ULID of its block instead of its version",
        "a merge that drops a version whose history block a later entry adds",
        "no look after a root",
        "a leaf reused from a root that was collected meanwhile",
        "leaves removed whose root is still to be written",
        "leaves removed after one look",
        "a missing leaf read as not accounted",
        "leaves removed without a look at the roots of tags",
    }
)
"""The ways to get the protocol wrong that the models must be able to see."""


@needs_spin
@pytest.mark.parametrize("model", RUN)
def test_a_correct_model_holds_in_all_its_bounds_and_reaches_every_statement(model: str) -> None:
    """Slow because every state is visited: that is the proof."""
    checks = [one for one in CHECKS if one.model == model and not one.broken]
    results = [runner.verify(one) for one in checks]
    assert {one.bounds: one.got for one in results} == {one.bounds: "holds" for one in checks}
    assert runner.unlisted(MODELS, results, full=False) == []
    assert min(one.states for one in results) > 10_000, "a model that hardly moves proves nothing"
    tally("model states", sum(one.states for one in results))


@needs_spin
@pytest.mark.parametrize("check", [one for one in CHECKS if one.broken], ids=lambda one: one.name)
def test_a_broken_variant_breaks_what_it_shall_break(check: object) -> None:
    result = runner.verify(check)
    assert result.got == result.expected
    tally("broken variants of models caught")


def test_every_known_way_to_get_the_protocol_wrong_has_its_variant() -> None:
    faults = {one["what"] for table in MODELS.values() for one in table["broken"].values()}
    assert PROTOCOL_FAULTS - faults == set()


def test_every_variant_is_in_the_text_of_its_model_and_every_one_in_a_text_is_checked() -> None:
    included = {"commit": ("index",)}
    for model, table in MODELS.items():
        names = (model, *included.get(model, ()))
        text = "".join((runner.SPECS / f"{name}.pml").read_text() for name in names)
        assert set(runner.re.findall(r"BROKEN_(\w+)", text)) == set(table["broken"]), model


def test_every_model_is_listed() -> None:
    shared = {"must", "index"}
    assert {path.stem for path in runner.SPECS.glob("*.pml")} - shared == set(MODELS)
    for table in MODELS.values():
        assert set(table) <= {"about", "small", "far", "full", "broken", "unreached"}
        assert set(table.get("far", ())) <= set(table["small"])
        assert all(one["reason"] for one in table.get("unreached", ()))
