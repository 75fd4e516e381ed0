"""Settings: the file shows every default, the environment overrides, and all problems are reported
at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.compactor.config import ProcessConfig, load_config
from blockstore.compactor.plan.jobs import PlanSettings
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid

SHIPPED = Path(__file__).parents[2] / "configs" / "compactor.toml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


def test_the_values_of_the_program_are_those_of_the_shipped_file() -> None:
    assert load_config(SHIPPED, {}) == load_config(None, {}) == ProcessConfig()


def test_planning_and_settings_have_the_same_defaults() -> None:
    ours, plans = Settings(), PlanSettings()
    assert (ours.ranges_ms, ours.tier_blocks, ours.max_block_bytes) == (
        plans.ranges_ms,
        plans.tier_blocks,
        plans.max_block_bytes,
    )


def test_a_file_and_the_environment_over_it(tmp_path: Path) -> None:
    path = written(
        tmp_path, '[compactor]\nmemory = "2GiB"\ntier_blocks = 4\nskip = ["cluster=eu1"]\n'
    )
    settings = load_config(
        path, {"BLOCKSTORE_COMPACTOR_TIER_BLOCKS": "5", "BLOCKSTORE_COMPACTOR_RANGES": "1h, 1d"}
    ).settings
    assert settings.memory_bytes == 2 << 30
    assert settings.tier_blocks == 5
    assert settings.ranges_ms == (3_600_000, 86_400_000)
    assert settings.skip == (("cluster", "eu1"),)


def test_all_problems_are_reported_at_once_with_the_nearest_key(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[compactor]\nmemroy = "1GiB"\ntier_blocks = "many"\nchunk_size = "1 furlong"\nranges = '
        "[]\n",
    )
    with pytest.raises(Invalid) as found:
        load_config(path, {})
    message = str(found.value)
    for part in ("did you mean memory?", "'many'", "1 furlong", "ranges must be"):
        assert part in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[compactor]\nranges = ['2h', '3h']", "multiple"),
        ("[compactor]\ntier_blocks = 1", "at least 2"),
        ("[compactor]\nchunk_size = '1GiB'", "512MiB"),
        ("[compactor]\nmax_block_size = '1MiB'", "at least the chunk_size"),
        ("[compactor]\nmemory = '1MiB'", "64MiB"),
        ("[compactor]\nconcurrency = 0", "at least 1"),
        ("[compactor]\nskip = ['eu1']", "cluster=eu1"),
        ("[compactor]\nskip = 7", "expected a list"),
        ("[compactor]\nwork_dir = 7", "expected a path"),
        ("memory = '1GiB'", "unknown table"),
        ("[compactor", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Invalid, match=part):
        load_config(written(tmp_path, text), {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"nothing\.toml"):
        load_config(tmp_path / "nothing.toml", {})


def test_a_table_of_a_lake_differs_in_what_the_file_says_of_it(tmp_path: Path) -> None:
    path = written(
        tmp_path, '[compactor]\ntier_blocks = 4\n[tables."eu/sensors"]\nmax_block_size = "1GiB"\n'
    )
    config = load_config(path, {})
    assert config.of_table("eu/sensors") == replace(config.settings, max_block_bytes=1 << 30)
    assert config.of_table("others") == config.settings


def test_overrides_of_a_table_must_agree_with_the_rest(tmp_path: Path) -> None:
    path = written(
        tmp_path, '[tables.sensors]\nmax_block_size = "16MiB"\n[tables.logs]\nmemory = "1GiB"\n'
    )
    with pytest.raises(Invalid, match="unknown key memory"):
        load_config(path, {})
    path = written(tmp_path, '[tables.sensors]\nmax_block_size = "16MiB"\n')
    with pytest.raises(Invalid, match=r'\[tables."sensors"\].*max_block_size'):
        load_config(path, {})
