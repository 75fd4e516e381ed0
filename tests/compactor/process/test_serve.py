"""The compactor as a real process: it serves, stops on a signal, and ends with one clear line when
it must."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import open_bucket
from blockstore.compactor.merge.workdir import merge_folder
from blockstore.names import BOUNDARY
from blockstore.world import World

pytestmark = pytest.mark.alone

SCHEMA = pa.schema([("row", pa.int64())])
PATIENCE_S = 120.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Compactor:
    """A process over a lake, with its log and its address."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.log = folder / f"log-{free_port()}"
        self.url = f"http://127.0.0.1:{free_port()}"
        config = self.log.with_suffix(".toml")
        config.write_text(
            '[compactor]\ntier_blocks = 2\n[loops]\ntables = "200ms"\ninterval = "200ms"\nclean = '
            '"200ms"\nindex = "1s"\n'
            'backlog = "200ms"\nretention = "1s"\n[http]\nlisten = '
            f'"{self.url.removeprefix("http://")}"\n[log]\nstyle = "json"\n'
        )
        command = Path(sys.executable).parent / "blockstore"
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [command, "compact", f"{folder}/lake", "--wait", "--config", config, *words],
                stderr=file,
            )

    def get(self, path: str) -> httpx.Response | None:
        try:
            return httpx.get(self.url + path, timeout=60)
        except httpx.TransportError:
            return None

    def until(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def ready(self) -> bool:
        response = self.get("/-/ready")
        return response is not None and response.status_code == 200

    def ended(self) -> tuple[int, str]:
        """Its exit code, and the last line that it wrote."""
        code = self.process.wait(PATIENCE_S)
        return code, self.log.read_text().rstrip("\n").rpartition("\n")[2]

    def messages(self) -> list[dict[str, object]]:
        return [
            json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")
        ]


@pytest.fixture
def compactors(tmp_path: Path) -> Iterator[Callable[..., Compactor]]:
    with ExitStack() as running:

        def start(*words: str) -> Compactor:
            made = Compactor(tmp_path, *words)
            running.callback(lambda: (made.process.kill(), made.process.wait(PATIENCE_S)))
            return made

        yield start


def fill(folder: Path, name: str, blocks: int = 3) -> bs.Table:
    table = bs.create(f"{folder}/lake/{name}?durable=false", schema=SCHEMA, sort_by=["row"])
    for number in range(blocks):
        table.append(pa.table({"row": [number]}, schema=SCHEMA))
    return table


def test_it_merges_every_table_reports_it_and_stops_on_a_signal(
    tmp_path: Path, compactors: Callable[..., Compactor]
) -> None:
    """Slow (some seconds): a whole interpreter with its loops and its server."""
    tables = [fill(tmp_path, name) for name in ("a", "b")]
    made = compactors()
    made.until(made.ready)
    late = fill(tmp_path, "late")
    made.until(lambda: [len(one.snapshot().blocks) for one in (*tables, late)] == [1, 1, 1])
    assert [one.snapshot().count() for one in (*tables, late)] == [3, 3, 3]
    healthy, metrics, page = made.get("/-/healthy"), made.get("/metrics"), made.get("/")
    assert healthy is not None
    assert healthy.json() == {"ok": True, "reasons": []}
    assert page is not None
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert metrics is not None
    assert 'blockstore_compactor_jobs_total{outcome="committed",table="a"} 1.0' in metrics.text
    assert 'blockstore_bucket_requests_total{verb="put_if_absent"}' in metrics.text
    made.process.send_signal(signal.SIGTERM)
    code, last = made.ended()
    assert (code, json.loads(last)["message"]) == (0, "stopped")
    merged = [one for one in made.messages() if str(one["message"]).startswith("merged ")]
    assert {one["table"] for one in merged} == {"a", "b", "late"}
    assert all(one["block"] and one["job"] for one in merged)


def test_what_others_keep_in_its_work_directory_survives_its_start(
    tmp_path: Path, compactors: Callable[..., Compactor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow (some seconds): a whole process."""
    work = tmp_path / "work"
    others = bs.create(f"{work}/blockstore-lake/t?durable=false", schema=SCHEMA, sort_by=["row"])
    others.append(pa.table({"row": [1]}, schema=SCHEMA))
    died = merge_folder(work, "01JD0000000000000000000000")
    died.mkdir()
    died.with_name(died.name + ".lock").touch()
    monkeypatch.setenv("BLOCKSTORE_COMPACTOR_WORK_DIR", str(work))
    fill(tmp_path, "a", blocks=1)
    made = compactors()
    made.until(made.ready)
    made.process.send_signal(signal.SIGTERM)
    assert made.ended()[0] == 0
    assert [path.name for path in work.iterdir()] == ["blockstore-lake"]
    assert bs.open(others.url).snapshot().count() == 1


def test_a_work_directory_inside_a_table_ends_it_with_a_clear_last_line(
    tmp_path: Path, compactors: Callable[..., Compactor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow (some seconds): a whole process."""
    fill(tmp_path, "a", blocks=1)
    monkeypatch.setenv("BLOCKSTORE_COMPACTOR_WORK_DIR", f"{tmp_path}/lake/a/work")
    code, last = compactors().ended()
    assert code == 1
    assert last.startswith(f"error: the work directory {tmp_path}/lake/a/work is inside the table")


def test_of_two_processes_in_a_role_the_newer_works_and_the_older_ends_in_both_orders(
    tmp_path: Path, compactors: Callable[..., Compactor]
) -> None:
    """Slow (some seconds): three processes."""
    fill(tmp_path, "a", blocks=1)
    older = compactors()
    older.until(older.ready)
    for _ in range(2):
        newer = compactors()
        code, last = older.ended()
        assert code == 1
        assert last.startswith("error: role 'compactor' is held by epoch ")
        newer.until(newer.ready)
        older = newer
    older.process.send_signal(signal.SIGINT)
    assert older.ended()[0] == 0


def test_shards_and_the_role_of_all_work_side_by_side(
    tmp_path: Path, compactors: Callable[..., Compactor]
) -> None:
    """Slow (some seconds): two processes."""
    table = fill(tmp_path, "a", blocks=1)
    running = [compactors(), compactors("--shard", "0/1")]
    for one in running:
        one.until(one.ready)
    assert table.log.poll().epochs.keys() == {"compactor", "compactor/0"}
    for one in running:
        one.process.send_signal(signal.SIGTERM)
    assert [one.ended()[0] for one in running] == [0, 0]


def test_a_boundary_that_is_lost_ends_it_with_a_clear_last_line(
    tmp_path: Path, compactors: Callable[..., Compactor]
) -> None:
    """Slow (some seconds): a whole process."""
    table = fill(tmp_path, "a", blocks=1)
    made = compactors()
    made.until(made.ready)
    open_bucket(table.url, World.real()).delete([BOUNDARY])
    code, last = made.ended()
    assert code == 1
    assert last.startswith("error: ")
    assert "boundary" in last


HANGING = """
import sys, threading
from blockstore.compactor import verbs
from blockstore.compactor.process import process
from blockstore.compactor.merge import engines
from blockstore.compactor.merge.local import LocalEngine
from blockstore.cli.main import main

class Hanging(LocalEngine):
    def merge(self, *_):
        print("hangs", flush=True)
        threading.Event().wait()

process._ABANDONED_S = 0.2
engines.engine_named = lambda name: Hanging()
main()
"""
"""The command, with a merge that never comes back from its store."""


def test_a_fatal_error_ends_it_with_its_line_beside_a_merge_that_does_not_come_back(
    tmp_path: Path,
) -> None:
    """Slow (some seconds): a whole process."""
    table = fill(tmp_path, "a")
    config = tmp_path / "config.toml"
    config.write_text(
        '[compactor]\ntier_blocks = 2\n[loops]\ninterval = "200ms"\nclean = "1h"\nindex = '
        '"200ms"\n[http]\nlisten = ""\n'
    )
    words = ["compact", f"{tmp_path}/lake", "--wait", "--config", str(config)]
    made = subprocess.Popen(
        [sys.executable, "-c", HANGING, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert made.stdout is not None
        assert made.stdout.readline() == "hangs\n"
        open_bucket(table.url, World.real()).delete([BOUNDARY])
        _, log = made.communicate(timeout=PATIENCE_S)
    finally:
        made.kill()
        made.communicate()
    assert made.returncode == 1, log
    last = log.rstrip("\n").rpartition("\n")[2]
    assert last.startswith("error: ")
    assert "boundary" in last
