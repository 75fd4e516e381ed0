"""Settings: the file shows every default, the environment overrides, and every problem is told at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Invalid
from compactor.plan import PlanSettings
from compactor.settings import Settings, load_settings
from compactor.sizes import format_size, parse_size

SHIPPED = Path(__file__).parents[2] / "configs" / "compactor.toml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


def test_the_shipped_file_says_the_defaults_and_every_key() -> None:
    assert load_settings(SHIPPED, {}) == Settings()
    keys = tomllib.loads(SHIPPED.read_text())["compactor"].keys()
    with pytest.raises(Invalid) as found:
        load_settings(None, {"BLOCKSTORE_COMPACTOR_ZZZ": "1"})
    assert str(found.value).partition("the keys are ")[2].split(", ") == list(keys)


def test_every_key_of_the_shipped_file_has_its_sentence() -> None:
    lines = SHIPPED.read_text().splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith("#"):
            assert lines[number - 1].startswith("# "), line


def test_planning_and_settings_have_the_same_defaults() -> None:
    ours, plans = Settings(), PlanSettings()
    assert (ours.ranges_ms, ours.tier_blocks, ours.max_block_bytes) == (
        plans.ranges_ms,
        plans.tier_blocks,
        plans.max_block_bytes,
    )


def test_a_file_and_the_environment_over_it(tmp_path: Path) -> None:
    path = written(tmp_path, '[compactor]\nmemory = "2GiB"\ntier_blocks = 4\nskip = ["cluster=eu1"]\n')
    settings = load_settings(
        path, {"BLOCKSTORE_COMPACTOR_TIER_BLOCKS": "5", "BLOCKSTORE_COMPACTOR_RANGES": "1h, 1d"}
    )
    assert settings.memory_bytes == 2 << 30
    assert settings.tier_blocks == 5
    assert settings.ranges_ms == (3_600_000, 86_400_000)
    assert settings.skip == (("cluster", "eu1"),)


def test_all_problems_are_told_at_once_with_the_nearest_key(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[compactor]\nmemroy = "1GiB"\ntier_blocks = "many"\nchunk_size = "1 furlong"\nranges = []\n',
    )
    with pytest.raises(Invalid) as found:
        load_settings(path, {})
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
        ("[compactor]\nwork_dir = 7", "expected a folder"),
        ("memory = '1GiB'", "at its top level"),
        ("[compactor", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Invalid, match=part):
        load_settings(written(tmp_path, text), {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"nothing\.toml"):
        load_settings(tmp_path / "nothing.toml", {})


@given(st.integers(0, 1 << 50))
def test_a_size_that_was_written_reads_the_same(size: int) -> None:
    assert parse_size(format_size(size), "size") == size


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("2GB", 2 * 10**9), (7, 7)]
)
def test_sizes_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text, "size") == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 mile", True, None, 1.5])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(Invalid, match="expected a size"):
        parse_size(text, "size")
