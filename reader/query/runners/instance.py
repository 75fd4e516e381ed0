"""A DuckDB instance that can read the given folders and do nothing else.

The lock, each part tested: no access to files outside the folders, no network, no extension loaded
or installed, no Python objects as tables, no change of settings; spills go to a folder of its own.
It is a second line behind ``statement.py``, which refuses everything but one SELECT over the given
tables. If the kernel confines the process to its folders (``landlock.py``), DuckDB's own check of
paths is off: it queries every parent folder, three times per file.

Settings: the session's time zone is UTC, so that a timestamp with a time zone is the same instant
everywhere. DuckDB's prefetching is off: all files are local, and it reads a complete row group where
one page is needed (a point query takes twice as long). Memory that a query released returns to the
system within seconds; by default DuckDB's allocator keeps it, half a gigabyte per process.
"""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from blockstore import scratch
from blockstore.reader.query.sql.types import text
from blockstore.scratch import LOCK, HeldFolder

_SPILL = "blockstore-spill-"
_SPILL_NAME = re.compile(re.escape(_SPILL) + r"[a-z0-9_]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a query engine may use of the machine; None: DuckDB's default."""

    memory_bytes: int | None = None
    threads: int | None = None
    spill_bytes: int | None = None


class Instance:
    """One locked instance; ``cursor`` returns a connection for a query."""

    def __init__(
        self,
        folders: Iterable[str],
        limits: Limits,
        *,
        spill: str | None = None,
        confined: bool = False,
    ) -> None:
        """``spill`` is the folder for data that exceeds memory; by default one is made and removed
        with the instance. ``confined``: the kernel already confines this process to ``folders`` and
        ``spill``."""
        self._remove_spill: Callable[[], object] = lambda: None
        if spill is None:
            folder = spill_folder()
            spill = str(folder.path)
            self._remove_spill = weakref.finalize(self, folder.remove)
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "allow_community_extensions": False,
                "allow_persistent_secrets": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            },
        )
        for setting in _settings(None if confined else folders, limits, spill):
            self._connection.execute(f"SET GLOBAL {setting}")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection with its own temporary views."""
        return self._connection.cursor()

    def close(self) -> None:
        """Close the instance and remove its spill folder; an instance with a query that cannot be
        ended stays until the process ends."""
        with suppress(duckdb.ResourceInUseException):
            self._connection.close()
            self._remove_spill()


def _settings(folders: Iterable[str] | None, limits: Limits, spill: str) -> list[str]:
    """``folders`` are those that DuckDB may read; None: the kernel enforces that."""
    settings = [
        "TimeZone = 'UTC'",
        "parquet_metadata_cache = true",
        "disable_parquet_prefetching = true",
        "allocator_background_threads = true",
        f"temp_directory = {text(spill)}",
    ]
    if limits.memory_bytes is not None:
        settings.append(f"memory_limit = '{limits.memory_bytes} B'")
    if limits.threads is not None:
        settings.append(f"threads = {limits.threads}")
    if limits.spill_bytes is not None:
        settings.append(f"max_temp_directory_size = '{limits.spill_bytes} B'")
    if folders is not None:
        allowed = ", ".join(text(folder.rstrip("/") + "/") for folder in folders)
        settings += [f"allowed_directories = [{allowed}]", "enable_external_access = false"]
    # Last: no setting can be changed after it.
    return [*settings, "lock_configuration = true"]


def spill_folder() -> HeldFolder:
    """A new folder for what outgrows memory: ``blockstore-spill-<token>`` in the system's folder for
    temporary files. The process that makes it and the process that spills to it hold it
    (``scratch.py``). Raises OSError."""
    made, lock = tempfile.mkstemp(prefix=_SPILL, suffix=LOCK)
    os.close(made)
    return HeldFolder(Path(lock.removesuffix(LOCK)))


def clear_abandoned_spill() -> int:
    """Remove the spill folders of dead processes of this user; return how many there were."""
    return scratch.clear_abandoned(Path(tempfile.gettempdir()), _SPILL_NAME, any_user=False)
