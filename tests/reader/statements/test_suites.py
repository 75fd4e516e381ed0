"""The statements of the ``*.test`` files give what they give in DuckDB: the same rows, counts and
errors, on tables of every kind, merged or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.reader.statements.door import opened
from tests.reader.statements.logic import Both, cases, records


@pytest.mark.parametrize(("path", "kind"), list(cases()), ids=lambda one: getattr(one, "stem", one))
def test_statements_do_what_they_do_in_duckdb(path: Path, kind: str, tmp_path: Path) -> None:
    found = list(records(path))
    assert found, "a file without a record compares nothing"
    with opened(str(tmp_path)) as session:
        both = Both(session, kind)
        for record in found:
            both.run(record)
