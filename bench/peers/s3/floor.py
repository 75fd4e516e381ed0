"""The floor on an S3 server: obstore and just the needed requests, with no table layer.

An append is two requests in turn, the rows and a numbered list of all blocks, written only if it is
new. A look is one, the next list. Reads know that the files are in the order of ``id``; they fetch
whole columns of whole row groups. No promise about damage, versions or removal is kept.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from bench.peers.api import Handle, Peer
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "FloorOnS3"]

TAIL = 64 << 10
PARALLEL = 32
Span = tuple[int, int]


class FloorHandle(Handle):
    def __init__(self, directory: Path) -> None:
        self._store = S3Store(
            place.BUCKET,
            prefix=place.prefix(directory),
            endpoint=_setting("aws_endpoint"),
            access_key_id=_setting("aws_access_key_id"),
            secret_access_key=_setting("aws_secret_access_key"),
            region=_setting("aws_region"),
            client_options={"allow_http": True},
        )
        self._pool = ThreadPoolExecutor(PARALLEL)
        self._lists: list[dict[str, Any]] = []
        self._written = 0
        self._process = os.getpid()

    def append(self, table: pa.Table) -> None:
        body = BytesIO()
        pq.write_table(table, body, compression="zstd", compression_level=1)
        self._written += 1
        key = f"blocks/{self._process:08d}-{self._written:08d}.parquet"
        obstore.put(self._store, key, body.getvalue(), use_multipart=False)
        block = {"path": key, "rows": table.num_rows}
        if not self._lists:
            self._open()
        while True:
            content = json.dumps([*self._lists, block]).encode()
            try:
                obstore.put(
                    self._store,
                    _list(len(self._lists)),
                    content,
                    mode="create",
                    use_multipart=False,
                )
            except AlreadyExistsError:
                self.poll()
            else:
                self._lists.append(block)
                return

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            self.append(table)

    def poll(self) -> None:
        try:
            while True:
                data = obstore.get(self._store, _list(len(self._lists))).bytes()
                self._lists = json.loads(bytes(data))
        except FileNotFoundError:
            return

    def count(self) -> int:
        if not self._lists:
            self._open()
        return sum(block["rows"] for block in self._lists)

    def point_range(self, low: int, high: int) -> int:
        inside = (pc.field("id") >= low) & (pc.field("id") <= high)
        return int(self._read(None, (low, high)).filter(inside).num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        rows = self._read(["origin", "value"], None)
        shifted = pc.add(rows["value"], float(shift))
        answer = (
            pa.table({"origin": rows["origin"], "value": shifted})
            .group_by("origin")
            .aggregate([("value", "count"), ("value", "sum")])
        )
        counts = answer["value_count"].to_pylist()
        return dict(zip(answer["origin"].to_pylist(), counts, strict=True))

    def close(self) -> None:
        self._pool.shutdown()

    def _open(self) -> None:
        names = [entry["path"] for page in obstore.list(self._store, "lists") for entry in page]
        if names:
            self._lists = json.loads(bytes(obstore.get(self._store, max(names)).bytes()))

    def _bare(self) -> list[Mapping[str, Any]]:
        found = [entry for page in obstore.list(self._store, "bare") for entry in page]
        return sorted(found, key=lambda entry: entry["path"])

    def _sparse(self, file: Mapping[str, Any]) -> mmap.mmap:
        """The file's end, in memory as long as the file, of which only what is filled is taken."""
        size = file["size"]
        memory = mmap.mmap(-1, size)
        start = max(0, size - TAIL)
        memory[start:] = bytes(obstore.get_range(self._store, file["path"], start=start, end=size))
        return memory

    def _read(self, columns: list[str] | None, span: Span | None) -> pa.Table:
        """The row groups that can hold an id within ``span``."""
        files = self._bare()
        memories = list(self._pool.map(self._sparse, files))
        opened = [pq.ParquetFile(pa.BufferReader(pa.py_buffer(memory))) for memory in memories]
        groups = [_groups(file.metadata, span) for file in opened]
        fills = [
            (file, memory, start, end)
            for file, memory, parquet, chosen in zip(files, memories, opened, groups, strict=True)
            for start, end in _ranges(parquet.metadata, chosen, columns)
        ]
        list(self._pool.map(lambda fill: self._fill(*fill), fills))
        wanted = [(file, chosen) for file, chosen in zip(opened, groups, strict=True) if chosen]
        return pa.concat_tables(
            self._pool.map(lambda each: each[0].read_row_groups(each[1], columns), wanted)
        )

    def _fill(self, file: Mapping[str, Any], memory: mmap.mmap, start: int, end: int) -> None:
        memory[start:end] = bytes(
            obstore.get_range(self._store, file["path"], start=start, end=end)
        )


def _groups(metadata: pq.FileMetaData, span: Span | None) -> list[int]:
    """The row groups whose ids meet ``span``; ``id`` is the first column."""
    if span is None:
        return list(range(metadata.num_row_groups))
    bounds = [
        metadata.row_group(number).column(0).statistics for number in range(metadata.num_row_groups)
    ]
    return [
        number for number, each in enumerate(bounds) if each.min <= span[1] and each.max >= span[0]
    ]


def _ranges(
    metadata: pq.FileMetaData, groups: Sequence[int], columns: list[str] | None
) -> list[Span]:
    """The bytes of the columns, neighbors in one range."""
    found: list[Span] = []
    for group in groups:
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if columns is not None and column.path_in_schema not in columns:
                continue
            start = min(
                offset
                for offset in (column.dictionary_page_offset, column.data_page_offset)
                if offset is not None
            )
            end = start + column.total_compressed_size
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
    return found


def _list(number: int) -> str:
    return f"lists/{number:08d}.json"


def _setting(name: str) -> str:
    return place.object_store()[name]


class FloorOnS3(Peer):
    name = "floor-s3"
    family = "floor"
    distribution = "obstore"
    settings = "just the needed requests, no table layer; reads whole columns of row groups"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return FloorHandle(directory)

    def open(self, directory: Path) -> Handle:
        return FloorHandle(directory)


CONTESTANTS = (FloorOnS3(),)
