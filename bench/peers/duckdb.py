"""DuckDB over plain Parquet files: the reference for queries (on the very files of ours) and for
merges."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.peers.api import Handle, Peer
from bench.peers.floor import FloorHandle

__all__ = ["CONTESTANTS", "DuckDB", "DuckHandle", "LimitedDuckDB"]


class DuckHandle(FloorHandle):
    """Writes as the floor does; reads any folder of ``<block>/chunks/*.parquet``."""

    def __init__(self, directory: Path, sort_by: Sequence[str], **settings: str) -> None:
        super().__init__(directory)
        self._order = ", ".join(sort_by)
        self._output = directory / "merged.parquet"
        self._connection = duckdb.connect(
            config={"temp_directory": str(directory / "spill"), **settings}
        )
        paths = sorted(str(path) for path in directory.glob("**/chunks/*.parquet"))
        self._files = f"read_parquet({paths!r})"

    def count(self) -> int:
        files = f"read_parquet({str(self._output)!r})" if self._output.exists() else self._files
        answer = self._connection.sql(f"SELECT count(*) FROM {files}").fetchall()
        return int(answer[0][0])

    def point_range(self, low: int, high: int) -> int:
        query = f"SELECT * FROM {self._files} WHERE id BETWEEN {low} AND {high}"
        return int(self._connection.sql(query).to_arrow_table().num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        query = f"SELECT origin, count(*), sum(value + {shift}) FROM {self._files} GROUP BY origin"
        return {origin: rows for origin, rows, _ in self._connection.sql(query).fetchall()}

    def merge(self) -> Sequence[Path]:
        self._connection.execute(
            f"COPY (SELECT * FROM {self._files} ORDER BY {self._order}) TO '{self._output}' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
        )
        return (self._output,)

    def close(self) -> None:
        self._connection.close()


class DuckDB(Peer):
    name = "duckdb"
    family = "duckdb"
    distribution = "duckdb"
    settings = (
        "the pruned work of its own engine over a list of files; a merge is ORDER BY into one file"
    )
    limits: Mapping[str, str] = {}

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return DuckHandle(directory, sort_by, **self.limits)

    def open(self, directory: Path) -> Handle:
        return DuckHandle(directory, ["id"], **self.limits)

    def commands(self, directory: Path) -> Mapping[str, Sequence[str]]:
        """Python with DuckDB, and nothing else."""
        files = sorted(str(path) for path in directory.glob("**/chunks/*.parquet"))
        code = (
            'import duckdb; print(duckdb.sql("select count(*) from '
            f'read_parquet({files!r})").fetchall()[0][0])'
        )
        return {"query_ms": [sys.executable, "-c", code]}


class LimitedDuckDB(DuckDB):
    name = "duckdb-1gib"
    settings = "the same within 1 GiB of memory, which is what a merge of ours may take"
    limits: Mapping[str, str] = {"memory_limit": "1GiB"}


CONTESTANTS = (DuckDB(), LimitedDuckDB())
