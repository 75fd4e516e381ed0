"""Magics for Jupyter: SQL in a cell, over a lake or through a gateway.

The problem: a notebook wants the rows of a statement as a DataFrame, with values of its own
variables in the statement, and a table on the screen that never has a million rows.

``%load_ext blockstore.notebook`` loads them. ``%blockstore URL`` chooses a lake, or a gateway whose
token is in the environment as ``BLOCKSTORE_TOKEN``; ``BLOCKSTORE_URL`` is the first choice. A cell
that begins with ``%%blockstore`` is a statement, and ``$name`` in it the value of a variable::

    %%blockstore -o late
    select * from flights where dep_delay > $minutes

The result of a cell is its first rows; with ``-o`` all rows are in the variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from blockstore.client import dbapi
from blockstore.client.client import Client
from blockstore.errors import BlockstoreError
from blockstore.statements import sql

_ROWS = 1_000
_TEXTS = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_SHOWN = ("name", "version", "rows")
_TAKEN = ("urls", "text", "job", "message", "world")
"""Names of ``blockstore.sql`` that no parameter can have."""


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext`` calls."""
    shell.register_magics(BlockstoreMagics)


@magics_class
class BlockstoreMagics(Magics):
    """``%blockstore`` and ``%%blockstore``."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._url = os.environ.get("BLOCKSTORE_URL", "")

    @line_magic("blockstore")
    def choose(self, line: str) -> Any:
        """Choose a lake or a gateway, if a URL is given, and show its tables."""
        self._url = line.strip() or self._url
        with _in_words():
            if _is_gateway(self._chosen()):
                with Client(self._url, _token()) as client:
                    listed = client.tables()
                return _frame(pa.table({one: [table[one] for table in listed] for one in _SHOWN}))
            _say(f"statements read and write {self._url}")
            return None

    @magic_arguments()
    @argument("-o", "--out", metavar="NAME", help="put all rows into this variable")
    @argument("--arrow", action="store_true", help="rows are an Arrow table, not a DataFrame")
    @argument("--rows", type=int, default=_ROWS, help=f"show so many rows, by default {_ROWS:,}")
    @cell_magic("blockstore")
    def run(self, line: str, cell: str) -> Any:
        """Run a statement. ``$name`` is the value of the variable; the result is the first rows,
        and what a change did is printed."""
        asked = parse_argstring(self.run, line)
        if asked.out is not None and not asked.out.isidentifier():
            raise UsageError(f"-o is {asked.out!r}, expected the name of a variable")
        shape = _arrow if asked.arrow else _frame
        with _in_words(), _ran(self._chosen(), cell, self._values(cell)) as (reader, did):
            if reader is None:
                _say(did)
                return None
            if asked.out is None:
                shown, more = _first(reader, asked.rows)
            else:
                rows = reader.read_all()
                self._variables[asked.out] = shape(rows)
                shown, more = rows.slice(0, asked.rows), rows.num_rows > asked.rows
        if more:
            where = "all rows" if asked.out is None else f"all of them in {asked.out}"
            hint = "add -o NAME for " if asked.out is None else ""
            _say(f"the first {asked.rows:,} rows; {hint}{where}")
        return shape(shown)

    @property
    def _variables(self) -> dict[str, Any]:
        assert self.shell is not None, "a magic runs in a shell"
        found: dict[str, Any] = self.shell.user_ns
        return found

    def _chosen(self) -> str:
        if not self._url:
            raise UsageError(
                "no lake and no gateway is chosen: run %blockstore URL, or set BLOCKSTORE_URL"
            )
        return self._url

    def _values(self, cell: str) -> dict[str, Any]:
        """The variables that a statement names."""
        names = dict.fromkeys(_NAME.findall(_TEXTS.sub(" ", cell)))
        for name in names:
            if name not in self._variables:
                raise UsageError(f"the statement has ${name}, and there is no variable {name}")
        return {name: _plain(self._variables[name]) for name in names}


@contextmanager
def _ran(
    url: str, cell: str, values: Mapping[str, Any]
) -> Iterator[tuple[pa.RecordBatchReader | None, str]]:
    """What a statement returns: rows, or a sentence about what it did."""
    if _is_gateway(url):
        with (
            dbapi.connect(url, _token(), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(cell, values)
            count = "done" if cursor.rowcount < 0 else f"{cursor.rowcount:,} rows"
            yield cursor.reader, count
        return
    taken = [name for name in values if name in _TAKEN]
    if taken:
        raise UsageError(f"a parameter cannot have the name {taken[0]} here: rename the variable")
    done = sql(url, cell, **values)
    try:
        yield done.rows, _said(done)
    finally:
        if done.rows is not None:
            done.rows.close()


def _said(done: Any) -> str:
    counts = {name: getattr(done, name) for name in ("inserted", "updated", "deleted")}
    changed = ", ".join(f"{count:,} rows {name}" for name, count in counts.items() if count)
    version = "" if done.version is None else f"; {done.table} is at version {done.version}"
    return f"{changed or 'done'}{version}"


def _first(reader: pa.RecordBatchReader, count: int) -> tuple[pa.Table, bool]:
    """The first rows, and whether there are more; no more of them is read."""
    batches, left = [], count + 1
    while left > 0 and (batch := next(reader, None)) is not None:
        batches.append(batch)
        left -= batch.num_rows
    rows = pa.Table.from_batches(batches, reader.schema)
    return rows.slice(0, count), rows.num_rows > count


def _say(text: str) -> None:
    print(text)  # noqa: T201 - what a cell prints


def _frame(rows: pa.Table) -> Any:
    """A DataFrame; the rows as they are where pandas is not installed."""
    try:
        return rows.to_pandas()
    except ImportError:
        return rows


def _arrow(rows: pa.Table) -> pa.Table:
    return rows


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if type(value).__module__ == "numpy" and value.shape == () else value


def _is_gateway(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _token() -> str | None:
    return os.environ.get("BLOCKSTORE_TOKEN") or None


@contextmanager
def _in_words() -> Iterator[None]:
    """Errors as one sentence, without a traceback."""
    try:
        yield
    except (BlockstoreError, dbapi.Error) as error:
        raise UsageError(str(error)) from error
