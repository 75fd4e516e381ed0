"""The 22 questions of TPC-H at a tenth of its smallest scale: the command's answers, and a
gateway's, are DuckDB's on the bare files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

import blockstore as bs
from blockstore.cli.main import run
from blockstore.reader.settings import QuerySettings
from tests.reader.http.gateways import WRITE, Served, serving, settings
from tests.support.tpch.data import TABLES, bare, lake, make
from tests.support.tpch.questions import QUESTIONS, question

pytestmark = pytest.mark.xdist_group("tpch")

SCALE = 0.1
QUERY = QuerySettings(memory_bytes=512 << 20, at_once=2)


@dataclass(frozen=True)
class Place:
    """The tables in a lake, and what DuckDB answers about the files that they were written from."""

    url: str
    expected: dict[int, pa.Table]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("tpch")
    files = make(SCALE, folder / "files")
    with bare(files) as connection:
        expected = {
            number: connection.sql(question(number, SCALE)).to_arrow_table() for number in QUESTIONS
        }
    return Place(lake(files, folder / "lake", block_rows=100_000), expected)


@pytest.fixture(scope="module")
def gateway(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(settings(place.url, tmp_path_factory.mktemp("gateway"), query=QUERY)) as one:
        yield one


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(found: pa.Table, expected: pa.Table) -> None:
    assert found.column_names == expected.column_names
    assert found.num_rows > 0
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("number", QUESTIONS)
def test_the_command_answers_as_duckdb_does(place: Place, tmp_path: Path, number: int) -> None:
    tables = [f"{place.url}/{name}" for name in TABLES]
    file = tmp_path / "answer.arrow"
    assert run(["query", *tables, question(number, SCALE), "-o", "arrow", "--to", str(file)]) == 0
    with ipc.open_stream(file) as stream:
        check(stream.read_all(), place.expected[number])


@pytest.mark.parametrize("number", QUESTIONS)
def test_a_gateway_answers_as_duckdb_does(gateway: Served, place: Place, number: int) -> None:
    with bs.Client(gateway.url, WRITE) as client:
        check(client.sql(question(number, SCALE)).to_arrow(), place.expected[number])
