"""Runs the files of a folder, and says what came out."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.reader.statements.duckdb_suite.running import Found, Result, run_file


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of DuckDB's tests, as test/sql/update")
    parser.add_argument("--tables", choices=("plain", "ids"), default="plain")
    parser.add_argument("--files", action="store_true", help="say what came out of each file")
    asked = parser.parse_args(arguments)
    total, files = Counter[Result](), Counter[str]()
    for path in sorted(asked.folder.rglob("*.test")):
        with tempfile.TemporaryDirectory() as folder:
            found = run_file(path, Path(folder), ids=asked.tables == "ids")
        counts = Counter(one.result for one in found)
        total += counts
        files[fate_of(counts)] += 1
        if asked.files:
            print(f"{path.relative_to(asked.folder)}: {fate_of(counts)} {said(counts)}")
            for one in _shown(found):
                first = " ".join(one.sql.split())[:100]
                print(f"  {one.result}, line {one.line}: {first}: {one.why[:400]}")
    print(f"duckdb-suite: {sum(files.values())} files: {said(files)}; {said(total)}")
    return 1 if total[Result.FAILED] else 0


def fate_of(counts: Counter[Result]) -> str:
    """What became of a file."""
    if counts[Result.FAILED]:
        return "failed"
    if not counts[Result.PASSED]:
        return "without a statement that applies"
    partly = (Result.REFUSED, Result.LEFT, Result.OTHERWISE)
    return "in part" if any(counts[one] for one in partly) else "whole"


def said(counts: Counter[Result] | Counter[str]) -> str:
    """Counts in words."""
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


def _shown(found: list[Found]) -> list[Found]:
    """What is shown of a file: faults and refusals; without any, the first that was left out."""
    named = (Result.FAILED, Result.REFUSED, Result.OTHERWISE)
    shown = [one for one in found if one.result in named]
    return shown or [one for one in found if one.result is Result.LEFT][:1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
