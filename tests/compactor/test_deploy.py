"""What is shipped to run it by: rules, unit and container file say what the program does."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from blockstore.clock import ManualClock
from blockstore.service.metrics import BucketRequests
from blockstore.service.prices import Prices
from compactor.config import FILE, load_config
from compactor.instruments import Instruments
from compactor.process import Process
from tests.compactor.tended import Tended
from tests.support.deployed import ROOT, Image, Unit, missing_metrics, named_metrics


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """Every metric of a process with one table."""
    lake = Tended(tmp_path)
    lake.create("a")
    lake.fill("a", 2)
    process: Process = lake.process()
    process.look()  # type: ignore[attr-defined]
    registry = CollectorRegistry()
    Instruments(registry, process.status)
    BucketRequests(registry, list, prices=Prices(), clock=ManualClock())
    return generate_latest(registry).decode()


def test_every_metric_that_a_rule_names_is_exported(exported: str) -> None:
    assert named_metrics("compactor") != set()
    assert missing_metrics("compactor", exported) == []


def test_the_unit_runs_the_verb_and_sets_what_the_program_reads() -> None:
    unit = Unit("compactor")
    assert unit.command[1:] == ["compact", "${LAKE}", "--wait", "--config", "/etc/blockstore/compactor.toml"]
    assert load_config(None, unit.environment).loops.cache is not None
    assert unit.stops_within_s > load_config(None, {}).loops.grace_s + 20


def test_the_container_file_copies_what_is_there_and_sets_what_the_program_reads() -> None:
    image = Image("compactor")
    assert "compactor" in image.copied
    assert image.absent() == []
    config = FILE.load(ROOT / "configs" / FILE.name, image.environment)
    assert config.values["http"].host == "0.0.0.0"  # type: ignore[attr-defined]
    assert len(image.environment) == 3
