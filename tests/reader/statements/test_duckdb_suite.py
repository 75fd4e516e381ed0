"""DuckDB's own tests give on Blockstore what they give on DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reader.statements.duckdb_suite.parsing import records
from tests.reader.statements.duckdb_suite.running import Result, run_file

FOLDER = Path(__file__).parent / "duckdb_suite" / "files"
FILES = sorted(FOLDER.rglob("*.test"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_statement_of_a_file_does_what_it_does_in_duckdb(path: Path, tmp_path: Path) -> None:
    found = run_file(path, tmp_path)
    assert [one for one in found if one.result not in (Result.PASSED, Result.SKIPPED)] == []
    assert sum(one.result is Result.PASSED for one in found) >= 5


def test_there_are_as_many_files_and_statements_as_docs_say() -> None:
    statements = [
        one for path in FILES for one in records(path) if one.words[0] in ("statement", "query")
    ]
    assert len(FILES) >= 57
    assert len(statements) >= 579


def test_what_does_not_hold_is_found(tmp_path: Path) -> None:
    file = tmp_path / "wrong.test"
    file.write_text(
        "statement ok\nCREATE TABLE t (a INTEGER)\n\n"
        "query I\nINSERT INTO t VALUES (1), (2)\n----\n3\n\n"
        "query I\nSELECT a FROM t ORDER BY a DESC\n----\n1\n2\n\n"
        "query I rowsort\nSELECT a FROM t\n----\n1\n2\n\n"
        "query I nosort before\nSELECT sum(a) FROM t\n----\n3\n\n"
        "loop i 0 2\n\nstatement ok\nINSERT INTO t VALUES (${i})\n\nendloop\n\n"
        "query I nosort before\nSELECT sum(a) FROM t\n----\n4\n\n"
        "statement error\nINSERT INTO t VALUES (5)\n\n"
        "statement ok\nSELECT nothing FROM t\n\n"
        "statement ok\nCREATE VIEW v AS SELECT 1\n\n"
        "query I\nSELECT count(*) FROM t\n----\n5\n"
    )
    (tmp_path / "lake").mkdir()
    found = [(one.line, one.result.name) for one in run_file(file, tmp_path / "lake")]
    assert found == [
        (1, "PASSED"),
        (4, "FAILED"),  # two rows, not three
        (9, "FAILED"),  # in another order
        (15, "PASSED"),
        (21, "PASSED"),
        (28, "PASSED"),
        (28, "PASSED"),
        (33, "FAILED"),  # other rows than those of the label
        (38, "FAILED"),  # it should be refused
        (41, "REFUSED"),  # a query, after which the file goes on
        (44, "REFUSED"),
        (47, "LEFT"),
    ]
