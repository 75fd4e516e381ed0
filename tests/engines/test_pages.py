"""Each engine's page of the guide works as it is printed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import blockstore as bs
from blockstore.export.delta.export import export_delta
from blockstore.export.iceberg.export import export_iceberg
from blockstore.reader.settings import TableSettings
from tests.engines.test_iceberg import PYTHON
from tests.reader.http.gateways import WRITE, make_lake, serving, settings
from tests.repo.fenced import blocks

CLIENT = Path(__file__).parent / "page_clients.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@dataclass(frozen=True)
class Lake:
    """A lake with the table ``flights`` of 1,000 rows, of which 500 have the tag ``release``."""

    folder: Path
    gateway: str
    metadata: str

    @property
    def flights(self) -> bs.Table:
        return bs.open(f"{self.folder}/lake/flights?durable=false")

    def page(self, name: str) -> list[tuple[str, str]]:
        """The language and the text of each block, for this lake."""
        return [(one.language, self._here(one.text)) for one in blocks(f"docs/guides/{name}.md")]

    def _here(self, text: str) -> str:
        for printed, here in (
            ("http://gateway:8080", self.gateway),
            ("bsk_…", WRITE),
            ("file:///…/metadata/v2-….metadata.json", self.metadata),
            ("'lake/flights'", f"'{self.folder}/lake/flights'"),
            ('"lake/flights"', f'"{self.folder}/lake/flights"'),
        ):
            text = text.replace(printed, here)
        assert "…" not in text, text
        return text


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    url = make_lake(tmp_path)
    flights = bs.open(f"{tmp_path}/lake/flights?durable=false")
    flights.tag("release", version=2)
    export_delta(flights)
    metadata = export_iceberg(flights).metadata
    with serving(settings(url, tmp_path, tables=TableSettings(urls=(url,)))) as served:
        yield Lake(folder=tmp_path, gateway=served.url, metadata=metadata)


def asked(*command: str | Path) -> str:
    done = subprocess.run(
        [PYTHON, *command],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def by_program(lake: Lake, page: str, *shown: str, printed: str = "", here: str = "") -> list[Any]:
    """What these expressions are after the page's programs, which are one. A word of them can be
    replaced."""
    programs = [text for language, text in lake.page(page) if language == "python"]
    programs = [text.replace(printed, here) if printed else text for text in programs]
    assert programs
    shows = f"import json; print(json.dumps([{', '.join(shown)}]))"
    found: list[Any] = json.loads(asked("-c", "\n".join([*programs, shows])).splitlines()[-1])
    return found


def by_sql(lake: Lake, engine: str) -> list[list[Any]]:
    """The rows of each query of the engine's page."""
    page = [text for _, text in lake.page(f"engines/{engine}")]
    answers = json.loads(asked(CLIENT, engine, json.dumps(page)).splitlines()[-1])
    return list(answers.values())


def shown(lake: Lake, where: str) -> list[tuple[int, str]]:
    found = lake.flights.snapshot().scan(where=where).to_table()
    return sorted(zip(found["n"].to_pylist(), found["s"].to_pylist(), strict=True))


def test_pyiceberg(lake: Lake) -> None:
    by_scan = "catalog.load_table('lake.flights').scan().to_arrow().num_rows"
    found = by_program(
        lake, "engines/pyiceberg", by_scan, "rows.num_rows", "catalog.list_tables('lake')"
    )
    assert found == [990 + 3, 1000, [["lake", "flights"], ["lake", "salaries"]]]
    assert shown(lake, "n >= 2000") == [
        (2000, "replaced"), (2001, "changed"), (2003, "in its place"),
    ]  # fmt: skip
    assert lake.flights.snapshot().count() == 990 + 3


def test_duckdb(lake: Lake) -> None:
    now, snapshots, from_file, delta = by_sql(lake, "duckdb")
    assert (now, len(snapshots), from_file, delta) == ([[992]], 2, [[1000]], [[1000]])


def test_spark(lake: Lake) -> None:
    now, release = by_sql(lake, "spark")
    assert (now, release) == ([[992]], [[500]])
    assert shown(lake, "n >= 2000") == [(2000, "merged"), (2001, "merged")]
    assert lake.flights.snapshot().count() == 990 + 2
    with pytest.raises(bs.NotFound, match="dropped"):
        bs.open(f"{lake.folder}/lake/airports")


def test_polars(lake: Lake) -> None:
    assert by_program(lake, "engines/polars", "len(rows)", "len(frame)") == [1000, 992]


def test_sail(lake: Lake) -> None:
    (server,) = [text for language, text in lake.page("engines/sail") if not language]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    assert "50051" in server
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    running = subprocess.Popen(
        ["bash", "-ec", server.replace("\nsail", "\nexec sail").replace("50051", port)],
        env={**os.environ, "PATH": path},
    )
    try:
        found = by_program(
            lake, "engines/sail", "now[0].rows", "release[0].rows", printed="50051", here=port
        )
    finally:
        running.kill()
        running.wait()
    assert found == [992, 500]


def test_deltalake(lake: Lake) -> None:
    (command,) = [text for language, text in lake.page("engines/deltalake") if not language]
    words = [Path(sys.executable).with_name("blockstore"), *command.split()[1:]]
    subprocess.run(words, cwd=lake.folder, check=True, capture_output=True, timeout=60)
    assert by_program(lake, "engines/deltalake", "rows.num_rows") == [992]
