"""What an operator decides about compaction: ``configs/compactor.toml``, its ``[compactor]`` table, and the environment.

Rules:
- Every key has a default; the file under ``configs/`` shows each at its default, with a sentence (a test holds it).
- ``BLOCKSTORE_COMPACTOR_<KEY>`` in the environment overrides the file; a list is separated by commas.
- Durations read as ``15m``, sizes as ``512MiB``. An unknown key is refused, with the nearest known one; all problems
  are told at once.
- What the table itself promises (delays, retention) is a property of the table and stands in no file.
"""

from __future__ import annotations

import difflib
import itertools
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from blockstore.errors import Invalid
from blockstore.format.durations import parse_duration
from compactor.sizes import format_size, parse_size

__all__ = ["SECTION", "Settings", "load_settings"]

SECTION = "compactor"
_ENVIRONMENT = "BLOCKSTORE_COMPACTOR_"
_MIB = 1 << 20
_LARGEST_CHUNK = 512 * _MIB
_LEAST_MEMORY = 64 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one compactor; a field is a key of the file, in units of the program."""

    ranges_ms: tuple[int, ...] = (7_200_000, 28_800_000, 172_800_000, 1_209_600_000)
    tier_blocks: int = 8
    max_block_bytes: int = 64 << 30
    skip: tuple[tuple[str, str], ...] = ()
    memory_bytes: int = 1 << 30
    chunk_bytes: int = 256 * _MIB
    concurrency: int = field(default_factory=lambda: os.cpu_count() or 1)
    work_dir: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise Invalid("the compactor's settings do not agree: " + "; ".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """One key of the file: the field that it sets, and how its value is read."""

    field: str
    read: Callable[[Any, str], Any]


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file (or none) under the environment. Raises Invalid, naming every problem."""
    given = {} if path is None else _file(path)
    variables = os.environ if environment is None else environment
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, (value, where) in {**given, **_overrides(variables)}.items():
        key = _KEYS.get(name)
        if key is None:
            problems.append(_unknown(name, where))
            continue
        try:
            values[key.field] = key.read(value, f"{name} in {where}")
        except Invalid as error:
            problems.append(str(error))
    settings = Settings()
    try:
        settings = replace(settings, **values)
    except Invalid as error:
        problems.append(str(error))
    if problems:
        raise Invalid("; ".join(problems))
    return settings


def _file(path: Path) -> dict[str, tuple[Any, str]]:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise Invalid(f"there is no configuration file {path}: check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not TOML ({error}): correct it") from None
    section = document.pop(SECTION, {})
    if document or not isinstance(section, dict):
        found = ", ".join(sorted(document)) or SECTION
        raise Invalid(
            f"{path} has {found} at its top level, expected one table [{SECTION}] with all keys in it"
        )
    return {name: (value, str(path)) for name, value in section.items()}


def _overrides(variables: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    return {
        name.removeprefix(_ENVIRONMENT).lower(): (text, f"the environment variable {name}")
        for name, text in variables.items()
        if name.startswith(_ENVIRONMENT)
    }


def _unknown(name: str, where: str) -> str:
    near = difflib.get_close_matches(name, _KEYS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(_KEYS)}"
    return f"unknown key {name} in {where}: {hint}"


def _problems(settings: Settings) -> list[str]:
    problems = []
    ranges = settings.ranges_ms
    if (
        not ranges
        or ranges[0] <= 0
        or any(after % before or after == before for before, after in _pairs(ranges))
    ):
        problems.append("ranges must be one duration or more, ascending, each a multiple of the one before")
    if settings.tier_blocks < 2:
        problems.append(f"tier_blocks is {settings.tier_blocks}, expected at least 2")
    if not _MIB <= settings.chunk_bytes <= _LARGEST_CHUNK:
        problems.append(f"chunk_size is {format_size(settings.chunk_bytes)}, expected 1MiB to 512MiB")
    if settings.max_block_bytes < settings.chunk_bytes:
        problems.append(
            f"max_block_size is {format_size(settings.max_block_bytes)}, expected at least the chunk_size of "
            f"{format_size(settings.chunk_bytes)}"
        )
    if settings.memory_bytes < _LEAST_MEMORY:
        problems.append(
            f"memory is {format_size(settings.memory_bytes)}, expected at least {format_size(_LEAST_MEMORY)}"
        )
    if settings.concurrency < 1:
        problems.append(f"concurrency is {settings.concurrency}, expected at least 1")
    return problems


def _pairs(values: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(values))


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list):
        raise Invalid(f"{name} is {value!r}, expected a list")
    return value


def _ranges(value: Any, name: str) -> tuple[int, ...]:
    return tuple(round(parse_duration(item, name) * 1000) for item in _items(value, name))


def _labels(value: Any, name: str) -> tuple[tuple[str, str], ...]:
    labels = []
    for item in _items(value, name):
        label, equals, text = item.partition("=") if isinstance(item, str) else ("", "", "")
        if not label or not equals:
            raise Invalid(f'{name} has {item!r}, expected labels such as "cluster=eu1"')
        labels.append((label, text))
    return tuple(labels)


def _count(value: Any, name: str) -> int:
    try:
        if isinstance(value, (bool, float)):
            raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise Invalid(f"{name} is {value!r}, expected a whole number") from None


def _cores(value: Any, name: str) -> int:
    return (os.cpu_count() or 1) if value == "cores" else _count(value, name)


def _directory(value: Any, name: str) -> Path:
    if not isinstance(value, str):
        raise Invalid(f"{name} is {value!r}, expected a folder")
    return Path(value or tempfile.gettempdir())


_KEYS = {
    "ranges": _Key(field="ranges_ms", read=_ranges),
    "tier_blocks": _Key(field="tier_blocks", read=_count),
    "max_block_size": _Key(field="max_block_bytes", read=parse_size),
    "skip": _Key(field="skip", read=_labels),
    "memory": _Key(field="memory_bytes", read=parse_size),
    "chunk_size": _Key(field="chunk_bytes", read=parse_size),
    "concurrency": _Key(field="concurrency", read=_cores),
    "work_dir": _Key(field="work_dir", read=_directory),
}
assert {key.field for key in _KEYS.values()} == {one.name for one in fields(Settings)}
