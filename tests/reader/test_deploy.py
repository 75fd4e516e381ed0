"""What is shipped to run a gateway by: rules, unit and container file say what the program does."""

from __future__ import annotations

from pathlib import Path

from blockstore.reader.settings import FILE, load_settings
from tests.reader.http.gateways import READ, make_lake, serving, settings
from tests.support.deployed import ROOT, Image, Unit, missing_metrics, named_metrics


def test_every_metric_that_a_rule_names_is_exported(tmp_path: Path) -> None:
    with serving(settings(make_lake(tmp_path), tmp_path)) as served, served.as_(READ) as reader:
        exported = reader.get("/metrics").text
    assert named_metrics("reader") != set()
    assert missing_metrics("reader", exported) == []


def test_the_unit_runs_the_verb_and_sets_what_the_program_reads() -> None:
    unit = Unit("reader")
    assert unit.command[1:] == ["serve", "--config", "/etc/blockstore/reader.toml"]
    settings = load_settings(None, unit.environment)
    assert settings.cache.folder is not None
    assert settings.jobs.work_dir is not None
    assert unit.stops_within_s > 30


def test_the_container_file_copies_what_is_there_and_sets_what_the_program_reads() -> None:
    image = Image("reader")
    assert "reader" in image.copied
    assert image.absent() == []
    config = FILE.load(ROOT / "configs" / FILE.name, image.environment)
    assert config.values["http"].listening.host == "0.0.0.0"  # type: ignore[attr-defined]
    assert len(image.environment) == 3
