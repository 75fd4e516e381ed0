"""The magics in a shell of IPython, over a lake and through a gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import blockstore as bs
from blockstore.world import World
from tests.reader.http.gateways import READ, WRITE, Served, make_lake, serving, settings
from tests.reader.postgres.raw import until
from tests.reader.postgres.test_door import SLOW
from tests.repo.fenced import blocks

MILLION = "range(1_000_000) as t(i)"


class Cells:
    """A shell, and what its cells give and print."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell(config=config)
        hook = self.shell.displayhook
        for part in ("write_output_prompt", "write_format_data", "finish_displayhook"):
            setattr(hook, part, lambda *_, **__: None)

    def run(self, cell: str) -> tuple[Any, str]:
        """What a cell gives, and what it prints or complains of."""
        with capture_output(display=False) as said:
            done = self.shell.run_cell(cell)
        return done.result, said.stdout + said.stderr


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cells:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = Cells()
    assert made.run("%load_ext blockstore.notebook") == (None, "")
    return made


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("notebook")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


def test_a_lake_is_read_and_written_with_variables(cells: Cells, tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    _, said = cells.run(f"%blockstore {lake}")
    assert lake in said
    frame, said = cells.run("%%blockstore\nselect n, s from flights where n < 2 order by n")
    assert isinstance(frame, pandas.DataFrame)
    assert (list(frame["s"]), said) == (["row 0", "row 1"], "")
    cells.run('import numpy as np; low, name = np.int64(997), "it\'s $low"')
    frame, _ = cells.run(
        "%%blockstore -o some\nselect n, $name as name, '$nix' as text -- $nix\n"
        "from flights where n > $low order by n"
    )
    assert frame.equals(cells.shell.user_ns["some"])
    assert frame.to_dict("list") == {
        "n": [998, 999], "name": ["it's $low"] * 2, "text": ["$nix"] * 2
    }  # fmt: skip
    _, said = cells.run(
        "%%blockstore\ncreate table items (sku varchar primary key, price decimal(9, 2))"
    )
    assert said == "done; items is at version 1\n"
    cells.shell.user_ns["price"] = Decimal("1.50")
    _, said = cells.run("%%blockstore\ninsert into items values ('a', $price), ('b', null)")
    assert said == "2 rows inserted; items is at version 2\n"
    frame, _ = cells.run("%%blockstore\nupdate items set price = price + 1 returning price")
    assert set(frame["price"]) == {Decimal("2.50"), None}


def test_a_gateway_is_read_and_written_with_the_scopes_of_the_token(
    cells: Cells, gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKSTORE_TOKEN", READ)
    frame, _ = cells.run(f"%blockstore {gateway.url}")
    assert list(frame["name"]) == ["flights", "salaries"]
    cells.shell.user_ns["low"] = 997
    frame, said = cells.run("%%blockstore\nselect n from flights where n > $low order by n")
    assert (list(frame["n"]), said) == ([998, 999], "")
    _, said = cells.run("%%blockstore\ndelete from salaries")
    assert said.startswith("UsageError: ")
    assert "write" in said
    monkeypatch.setenv("BLOCKSTORE_TOKEN", WRITE)
    _, said = cells.run("%%blockstore\ndelete from salaries where n >= $low - 990")
    assert said == "3 rows\n"
    frame, _ = cells.run("%%blockstore\nselect count(*) as n from salaries")
    assert list(frame["n"]) == [7]
    _, said = cells.run("%%blockstore\ncreate table made (n integer)")
    assert said == "done\n"


@pytest.mark.parametrize("where", ["lake", "gateway"])
def test_a_cell_shows_its_first_rows_and_reads_no_more(
    cells: Cells, gateway: Served, monkeypatch: pytest.MonkeyPatch, where: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("BLOCKSTORE_TOKEN", READ)
    cells.run(f"%blockstore {gateway.url if where == 'gateway' else make_lake(tmp_path)}")
    huge = "select range as n from range(1_000_000_000)"
    frame, said = cells.run(f"%%blockstore\n{huge}")
    assert (len(frame), said) == (1_000, "the first 1,000 rows; add -o NAME for all rows\n")
    frame, said = cells.run(f"%%blockstore --rows 3 --arrow\n{huge}")
    assert isinstance(frame, pa.Table)
    assert frame["n"].to_pylist() == [0, 1, 2]
    frame, said = cells.run("%%blockstore --rows 3 -o rows\nselect * from flights")
    assert (len(frame), said) == (3, "the first 3 rows; all of them in rows\n")
    assert len(cells.shell.user_ns["rows"]) == 1_000
    frame, said = cells.run("%%blockstore --rows 2\nselect n from flights where n < 2")
    assert (len(frame), said) == (2, "")
    assert gateway.rows("select 1 as one") == [{"one": 1}]


def test_what_is_wrong_is_one_sentence(
    cells: Cells, gateway: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def said_of(cell: str) -> str:
        _, said = cells.run(cell)
        assert said.startswith("UsageError: "), said
        assert said.count("\n") == 1, said
        return said

    assert "%blockstore URL" in said_of("%%blockstore\nselect 1")
    monkeypatch.setenv("BLOCKSTORE_TOKEN", "bsk_nix")
    for url in (gateway.url, make_lake(tmp_path)):
        cells.run(f"%blockstore {url}")
        assert "no variable nix" in said_of("%%blockstore\nselect $nix")
        said_of("%%blockstore\nselec 1")
        said_of("%%blockstore\nselect * from nowhere")
        assert "-o is '1x'" in said_of("%%blockstore -o 1x\nselect 1")
    cells.shell.user_ns["message"] = 1
    assert "rename" in said_of("%%blockstore\nselect $message")


def test_the_cells_of_the_guide_run_as_printed(
    cells: Cells, gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOCKSTORE_TOKEN", WRITE)
    with bs.Client(gateway.url, WRITE) as client:
        client.execute("create table stock (item varchar primary key, n integer)")
        client.execute("insert into stock values ('nut', 5), ('bolt', 2)")
    printed = [one for one in blocks("docs/guides/python.md") if one.language == "ipython"]
    assert len(printed) == 4
    for block in printed:
        found, said = cells.run(block.text.replace("http://127.0.0.1:8080", gateway.url))
        assert "Error" not in said
    assert list(found["item"]) == list(cells.shell.user_ns["many"]["item"]) == ["nut"]


def test_the_environment_chooses_first(
    gateway: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("BLOCKSTORE_URL", gateway.url)
    monkeypatch.setenv("BLOCKSTORE_TOKEN", READ)
    cells = Cells()
    cells.run("%load_ext blockstore.notebook")
    frame, _ = cells.run("%%blockstore\nselect max(n) as n from flights")
    assert frame["n"][0] == np.int64(999)


KERNEL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell(config=config)
shell.run_cell("%load_ext blockstore.notebook")
shell.run_cell(f"%blockstore {sys.argv[1]}")
for line in sys.stdin:
    done = shell.run_cell(json.loads(line))
    print("ended", type(done.error_in_exec).__name__, flush=True)
"""


@pytest.mark.parametrize("where", ["lake", "gateway"])
def test_a_million_rows_are_read_and_an_interrupt_ends_what_runs(
    gateway: Served, tmp_path: Path, where: str
) -> None:
    """Jupyter interrupts a kernel by SIGINT, as is sent here."""
    url = gateway.url if where == "gateway" else make_lake(tmp_path)
    (tmp_path / "ipython").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "BLOCKSTORE_TOKEN": READ},
    ) as kernel:
        assert kernel.stdin is not None
        assert kernel.stdout is not None

        def ended(cell: str | None) -> tuple[list[str], str]:
            """What the kernel prints until a cell has ended, and by which error."""
            if cell is not None:
                sent(cell)
            said: list[str] = []
            while not (line := kernel.stdout.readline()).startswith("ended "):
                assert line, "the kernel has died"
                said.append(line.rstrip("\n"))
            return said, line.split()[1]

        def sent(cell: str) -> None:
            kernel.stdin.write(json.dumps(cell) + "\n")
            kernel.stdin.flush()

        _, error = ended(f"%%blockstore -o many\nselect i as n, 'row ' || i as s from {MILLION}")
        assert error == "NoneType"
        said, _ = ended("print(len(many), many.n.sum(), many.s.iloc[-1])")
        assert said == ["1000000 499999500000 row 999999"]
        sent("print('begins')")
        assert ended(None) == (["begins"], "NoneType")
        sent(f"%%blockstore\n{SLOW} -- interrupted-{where}")
        if where == "gateway":
            assert until(lambda: gateway.gateway.engine.running() == 1)
        else:
            World.real().clock.sleep(2)
        kernel.send_signal(signal.SIGINT)
        assert ended(None)[1] == "KeyboardInterrupt"
        if where == "gateway":
            assert until(lambda: gateway.gateway.engine.running() == 0)
        _, error = ended("%%blockstore -o few\nselect count(*) as n from flights")
        assert error == "NoneType"
        assert ended("print(few.n[0])")[0] == ["1000"]
        kernel.stdin.close()
        assert kernel.wait(60) == 0
