"""Properties of a table: defaults, notation, and R10."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.identity import Key, RowIds
from blockstore.format.properties import UPLOAD_TIMEOUT_S, Consistency, Isolation, Properties


def test_defaults_are_those_that_are_documented() -> None:
    assert Properties().to_json() == {
        "consistency": "strong",
        "sync_delay": "15m",
        "delete_delay": "48h",
        "partial_delay": "48h",
        "history_retention": "48h",
        "retention": "none",
        "isolation": "write-serializable",
    }
    assert Properties().upload_timeout_s == UPLOAD_TIMEOUT_S == 24 * 3600


def test_what_is_written_is_read_again() -> None:
    chosen = Properties.parse({"sync_delay": "1m", "retention": "90d", "isolation": "serializable"})
    assert chosen.retention_s == 90 * 86_400
    assert chosen.isolation is Isolation.SERIALIZABLE
    assert Properties.parse(chosen.to_json()) == chosen


def test_former_versions_are_kept_as_said_or_as_the_identity_of_rows_asks() -> None:
    unset = Properties()
    assert "row_history" not in unset.to_json()
    assert unset.kept_history_s(RowIds()) == math.inf
    assert unset.kept_history_s(Key(("id",))) == 0
    for text, seconds in (("none", 0), ("forever", math.inf), ("720h", 30 * 86_400)):
        chosen = Properties.parse({"row_history": text})
        assert chosen.to_json()["row_history"] == text
        assert chosen.kept_history_s(RowIds()) == chosen.kept_history_s(Key(("id",))) == seconds
        assert Properties.parse(chosen.to_json()) == chosen
    with pytest.raises(Invalid, match="row_history"):
        Properties.parse({"row_history": "always"})
    with pytest.raises(Invalid, match="have no identity"):
        Definition.create(
            pa.schema([("n", pa.int64())]), properties=Properties.parse({"row_history": "1d"})
        )


def test_a_change_keeps_the_rest() -> None:
    chosen = Properties(sync_delay_s=60).changed({"retention": "1d"})
    assert (chosen.sync_delay_s, chosen.retention_s) == (60, 86_400)
    assert chosen.changed({"retention": None}).retention_s is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"sync_dely": "1m"}, "sync_dely"),
        ({"sync_delay": []}, "sync_delay"),
        ({"consistency": "sometimes"}, "strong, eventual"),
        ({"isolation": 3}, "isolation"),
    ],
)
def test_wrong_names_and_values_are_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        Properties.parse(values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"partial_delay": "24h"}, "partial_delay is 24h"),
        ({"delete_delay": "15m"}, "delete_delay is 15m"),
        ({"consistency": "eventual", "sync_delay": "4m"}, "eventual"),
    ],
)
def test_r10_delays_that_do_not_agree_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        Properties.parse(values)


def test_r10_every_problem_is_said_at_once() -> None:
    with pytest.raises(Invalid, match=r"partial_delay.*delete_delay.*eventual"):
        Properties(
            consistency=Consistency.EVENTUAL, sync_delay_s=1, delete_delay_s=1, partial_delay_s=1
        )


def test_r10_a_reader_may_be_as_stale_as_delete_delay_allows() -> None:
    Properties().check_reader(600)
    with pytest.raises(Invalid, match="max_staleness is 48h"):
        Properties().check_reader(48 * 3600)
