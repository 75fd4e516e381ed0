"""The reader that was written from docs/format.md alone passes all vectors, in a process that has
none of our code.

What it runs in: an isolated Python without site-packages, a folder of copies, and pyarrow alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.care.rebuild import plan_rebuild, rebuild
from blockstore.names import BOUNDARY
from tests.blockstore.rows.lake import by_key, rows_of
from tests.golden.make_vectors import HERE, write
from tests.golden.our_reader import answer
from tests.golden.vectors_indexed import rows, simple

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FILES = (
    "independent_reader.py",
    "independent_index.py",
    "independent_leaves.py",
    "independent_rows.py",
    "independent_segments.py",
)

DRIVER = """
import importlib.util, json, sys
sys.path.append(sys.argv[1])
for ours in ("blockstore", "compactor", "reader", "spark", "tests"):
    assert importlib.util.find_spec(ours) is None, ours
from independent_reader import Refused, answer
for line in sys.stdin:
    name, ask = json.loads(line)
    try:
        found = answer(f"{sys.argv[2]}/{name}/table", listing=ask.pop("list", False), **ask)
    except Refused as error:
        found = {"error": error.args[0], "why": str(error.args[1])}
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reader and with pyarrow, far from the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for name in FILES:
        shutil.copy(EXAMPLES / name, folder)
    site = Path(pa.__file__).parent.parent
    for found in [*site.glob("pyarrow*"), *site.glob("numpy*")]:
        (folder / found.name).symlink_to(found)
    return folder


def asked() -> list[tuple[str, dict[str, Any]]]:
    """Every question of every vector, with its answer."""
    return [
        (folder.name, ask)
        for folder in sorted(HERE.iterdir())
        if folder.is_dir()
        for ask in json.loads((folder / "expected.json").read_text())["asks"]
    ]


def run(place: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, cwd=place, timeout=120, check=False
    )


def test_it_answers_every_question_of_every_vector(place: Path) -> None:
    questions = asked()
    given = "".join(json.dumps([name, ask["ask"]]) + "\n" for name, ask in questions)
    done = run(place, "-c", DRIVER, str(place), str(HERE), given=given)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions) > 150
    for (name, ask), found in zip(questions, answers, strict=True):
        why = found.pop("why", None)
        expected = {key: value for key, value in ask.items() if key != "ask"}
        assert found == expected, (name, ask["ask"], why)


def test_it_agrees_with_ours_on_tables_of_earlier_releases_and_on_a_rebuilt_index(
    place: Path, tmp_path: Path
) -> None:
    """No list beside them says what they hold, so here two readers are compared."""
    golden = HERE.parent
    folders = {
        "v1": golden / "v1",
        "release": golden / "release_0_1" / "table",
        "rebuilt": rebuilt(tmp_path / "rebuilt"),
        "sites": several_streams(tmp_path / "sites"),
    }
    questions: list[tuple[str, dict[str, Any]]] = []
    for name, folder in folders.items():
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "table").symlink_to(folder)
        questions.append((name, {}))
        if name != "sites":
            listing = {"list": True, "now": 1_900_000_000_000, "modified": 1_800_000_000_000}
            questions.append((name, listing))
        questions += [(name, {"version": version}) for version in range(1, 13)]
    given = "".join(json.dumps(question) + "\n" for question in questions)
    done = run(place, "-c", DRIVER, str(place), str(tmp_path / "all"), given=given)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (name, ask), found in zip(questions, answers, strict=True):
        why = found.pop("why", None)
        assert found == json.loads(json.dumps(answer(folders[name], ask))), (name, ask, why)
    assert sum("state" in found for found in answers) > 15


def rebuilt(folder: Path) -> Path:
    """A table whose index was lost, all of it, and brought back, and that was written to since."""
    made = simple(61)
    for number in range(3):
        made.append(rows(number, number + 1))
    made.bucket.delete([BOUNDARY, *(info.key for info in made.bucket.list("index/"))])
    made.world.clock.sleep(10)
    found = rebuild(made.bucket, made.world, plan_rebuild(made.bucket, made.world))
    assert found.version > 1_000_000
    made.table.append(pa.table({"id": [9], "name": ["after"]}))
    write(made.bucket, folder)
    return folder


def several_streams(folder: Path) -> Path:
    """A table of which one entry changes rows with different labels."""
    table = by_key()
    for labels in ({"site": "x"}, {"site": "y"}, {}):
        table.upsert(rows_of({"id": 1, "name": "a", "n": 1}), labels=labels)
    table.update({"n": 2}, where="site = 'x' or site is null")
    table.delete("n = 2 and site = 'x'")
    write(table.bucket, folder)
    return folder


def test_a_person_may_ask_it(place: Path) -> None:
    start = (
        f"import sys, runpy; sys.path.append({str(place)!r}); "
        f"runpy.run_path({str(place / FILES[0])!r}, run_name='__main__')"
    )
    good = run(place, "-c", start, str(HERE / "replaced-rows" / "table"), "--version", "3")
    assert good.returncode == 0, good.stderr
    found = json.loads(good.stdout)
    assert (found["state"]["version"], len(found["rows"])) == (3, 8)
    bad = run(place, "-c", start, str(HERE / "entry-bit" / "table"))
    assert bad.returncode == 1
    assert bad.stderr.startswith("corrupt: entry 4"), bad.stderr


def test_it_has_nothing_of_ours_and_stays_short() -> None:
    for name in FILES:
        text = (EXAMPLES / name).read_text()
        assert len(text.splitlines()) <= 430
        imports = {
            line.split()[1].partition(".")[0]
            for line in text.splitlines()
            if line.startswith(("import ", "from "))
        }
        parts = {other.removesuffix(".py") for other in FILES} - {name.removesuffix(".py")}
        assert imports - set(sys.stdlib_module_names) <= {"pyarrow"} | parts
