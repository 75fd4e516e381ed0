"""The shipped deployment files: rules, unit and container file match what the program does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette

from blockstore.clock import ManualClock
from blockstore.compactor.config import FILE, load_config
from blockstore.compactor.process import process
from blockstore.compactor.process.instruments import Instruments
from blockstore.compactor.process.process import Process
from blockstore.service import serving
from blockstore.service.billing import Prices
from blockstore.service.listening import Listening
from blockstore.service.metrics import BucketRequests
from blockstore.service.serving import Health, Server, health_routes
from tests.compactor.tended import Tended
from tests.support.certificates import certificate
from tests.support.deployed import ROOT, Image, Unit, missing_metrics, named_metrics


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """Every metric of a process with one table."""
    lake = Tended(tmp_path)
    lake.create("a")
    lake.fill("a", 2)
    tending: Process = lake.process()
    tending.look()  # type: ignore[attr-defined]
    registry = CollectorRegistry()
    Instruments(registry, tending.status)
    BucketRequests(registry, list, prices=Prices(), clock=ManualClock())
    return generate_latest(registry).decode()


def test_every_metric_that_a_rule_names_is_exported(exported: str) -> None:
    assert named_metrics("compactor") != set()
    assert missing_metrics("compactor", exported) == []


def test_the_unit_runs_the_verb_and_sets_what_the_program_reads() -> None:
    unit = Unit("compactor")
    assert unit.command[1:] == [
        "compact",
        "${LAKE}",
        "--wait",
        "--config",
        "/etc/blockstore/compactor.toml",
    ]
    assert load_config(None, unit.environment).loops.cache is not None


def test_what_ends_the_process_leaves_it_the_time_that_it_may_take_to_stop() -> None:
    takes_s = (
        load_config(None, {}).loops.grace_s
        + process._ABANDONED_S
        + serving.GRACE_S
        + serving.CLOSES_S
    )
    assert Unit("compactor").stops_within_s >= takes_s + 10
    assert Image("compactor").stops_within_s >= takes_s + 10


def test_the_container_file_copies_what_is_there_and_sets_what_the_program_reads() -> None:
    image = Image("compactor")
    assert "compactor" in image.copied
    assert image.absent() == []
    config = FILE.load(ROOT / "configs" / FILE.name, image.environment)
    assert config.values["http"].host == "0.0.0.0"  # type: ignore[attr-defined]
    assert len(image.environment) == 3


@pytest.mark.parametrize("image", ["compactor", "reader"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_container_is_healthy_exactly_if_the_process_is_with_and_without_tls(
    tmp_path: Path, image: str, tls: bool
) -> None:
    cert, key = certificate(tmp_path) if tls else (None, None)
    ill = Health(reasons=("the loops are not running",))
    for health in (Health(), ill):
        app = Starlette(routes=health_routes(lambda health=health: health, Health))
        with Server(app, Listening(host="127.0.0.1", port=0, tls_cert=cert, tls_key=key)) as server:
            assert Image(image).is_healthy(server.url) == health.ok
    assert not Image(image).is_healthy(server.url), "nobody answers"


def test_what_the_container_file_installs_runs_the_verb(tmp_path: Path) -> None:
    """Slow (some seconds): an environment is made, and a wheel."""
    made = Image("compactor").install(tmp_path)
    command = [
        f"{made}/bin/blockstore",
        "compact",
        f"{tmp_path}/lake",
        "--plan",
        "--config",
        ROOT / "configs" / FILE.name,
    ]
    done = subprocess.run(
        command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert "no table" in done.stderr
    names = ["blockstore", "blockstore.compactor", "pyspark_blockstore"]
    code = (
        f"from importlib.util import find_spec\nfor name in {names}: print(find_spec(name).origin)"
    )
    done = subprocess.run(
        [f"{made}/bin/python", "-c", code],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.startswith(f"{made}/lib/") for line in done.stdout.splitlines()] == [True] * 3
