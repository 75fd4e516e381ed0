"""What is shipped to run it by: rules, unit and container file say what the program does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from blockstore.clock import ManualClock
from blockstore.service.metrics import BucketRequests
from blockstore.service.prices import Prices
from compactor.config import FILE, load_config
from compactor.instruments import Instruments
from compactor.process import Process
from tests.compactor.tended import Tended

ROOT = Path(__file__).parents[2]
RULES = ROOT / "configs" / "prometheus" / "compactor.rules.yml"
UNIT = ROOT / "configs" / "systemd" / "blockstore-compactor.service"
DOCKER = ROOT / "configs" / "docker" / "compactor.Dockerfile"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def rules() -> list[dict[str, object]]:
    document = yaml.safe_load(RULES.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


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
    names = {name for rule in rules() for name in re.findall(r"blockstore_\w+", str(rule["expr"]))}
    assert len(names) > 6
    missing = [name for name in names if not re.search(rf"^{name}(?:\{{| )", exported, re.MULTILINE)]
    assert missing == []


def test_every_rule_has_a_sentence_a_severity_and_a_row_in_the_manual() -> None:
    for rule in rules():
        name = str(rule["alert"])
        assert rule["annotations"]["summary"].endswith("."), name  # type: ignore[index]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name  # type: ignore[index]
        assert rule["for"], name
        assert f"`{name}`" in OPERATIONS, name


def test_promtool_accepts_the_rules_where_it_is_found() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert yaml.safe_load(RULES.read_text())["groups"]
        return
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_runs_the_verb_and_sets_what_the_program_reads() -> None:
    lines = [line for line in UNIT.read_text().splitlines() if line and not line.startswith("#")]
    (command,) = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
    assert shlex.split(command)[1:] == [
        "compact",
        "${LAKE}",
        "--wait",
        "--config",
        "/etc/blockstore/compactor.toml",
    ]
    variables = dict(
        line.removeprefix("Environment=").split("=", 1) for line in lines if line.startswith("Environment=")
    )
    assert load_config(None, variables).loops.cache is not None
    stop_s = next(
        int(line.partition("=")[2].removesuffix("s")) for line in lines if line.startswith("TimeoutStopSec=")
    )
    assert stop_s > load_config(None, {}).loops.grace_s + 20


def test_the_container_file_copies_what_is_there_and_sets_what_the_program_reads() -> None:
    text = DOCKER.read_text().replace("\\\n", " ")
    sources = [word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert "compactor" in sources
    assert [word for word in sources if not (ROOT / word).exists()] == []
    (environment,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    variables = dict(word.split("=", 1) for word in environment.split() if word.startswith("BLOCKSTORE_"))
    config = FILE.load(ROOT / "configs" / FILE.name, variables)
    assert config.values["http"].host == "0.0.0.0"  # type: ignore[attr-defined]
    assert len(variables) == 3
