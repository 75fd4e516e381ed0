"""``blockstore sql``: statements from the command line, from standard input, or typed one by one.

Rules:
- A text from the command line or from standard input is parsed completely before any of it runs,
  and ends with the first statement that fails.
- At a terminal a statement ends with ``;``. One that fails is reported, and the next can be typed.
  Ctrl-C stops a statement that has not been committed; a commit is never left half way.
- At a terminal the statements of a transaction run as they are typed, and nothing of it is visible
  before COMMIT.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from types import FrameType

from blockstore.cli.failure import Usage, complain
from blockstore.cli.output import counted, say, show_json
from blockstore.cli.progress import rows_so_far
from blockstore.errors import BlockstoreError
from blockstore.format.block import Job
from blockstore.reader.errors import BadSql
from blockstore.reader.forms.deliver import ALL_ROWS, deliver
from blockstore.reader.statements.copying import copy, wanted_copy
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.interrupts import Interrupts
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.terminal import lines, paged
from blockstore.reader.statements.texts import Kind, Text
from blockstore.reader.statements.tokens import tokens_of
from blockstore.reader.statements.transaction import Block, Transaction, carry_out, grouped

_FIRST, _MORE, _OPEN, _FAILED = "sql> ", "...> ", "sql*> ", "sql!> "
_LEAVE = {"exit", "quit", "\\q", ".quit", ".exit"}
_HELP = {"help", "?", "\\?", "\\h", ".help"}
_TABLES = {"\\d", "\\dt", ".tables", "show tables"}
_ABOUT = """\
;           ends a statement, which may have many lines
Tab         completes names of tables, their columns, and words of SQL
Up, Ctrl-R  the statements that were typed before
Ctrl-C      stops what runs, or drops what is being typed
\\d, \\d t    the tables, the columns of one
\\q, Ctrl-D  leave
Rows to a file: COPY (SELECT …) TO 'file.csv'; statements together: BEGIN; … COMMIT;"""
_WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "WITH"),
    *("INSERT INTO", "VALUES", "ON CONFLICT DO", "NOTHING", "RETURNING", "UPDATE", "SET"),
    *("DELETE FROM", "TRUNCATE", "MERGE INTO", "WHEN", "NOT", "MATCHED", "THEN"),
    *("BEGIN", "COMMIT", "ROLLBACK", "COPY", "TO"),
    *("CREATE TABLE", "ALTER TABLE", "ADD COLUMN", "RENAME COLUMN", "EXPLAIN", "ANALYZE"),
)


def run(
    words: Sequence[str],
    *,
    output: str = "table",
    job: Job | None = None,
    message: str = "",
    parameters: Mapping[str, str] | None = None,
) -> None:
    """Run the statements of the last word, or of standard input, over the tables that the other
    words name. Raises Usage."""
    urls, text = _apart(words)
    doing = Doing(parameters=dict(parameters or {}) or None, job=job, message=message)
    with opened(urls) as session:
        if text is None and sys.stdin.isatty():
            _Shell(session, doing, output).loop()
            return
        steps = grouped(_parsed(session, sys.stdin.read() if text is None else text))
        if job is not None and len(steps) != 1:
            raise Usage(
                f"--app and --batch are for one statement or transaction, found {len(steps)}"
            )
        for one in steps:
            for outcome in _guarded(session, one, doing, quiet=output != "table"):
                show(outcome, output)


def show(outcome: Outcome, output: str, *, more: str = ALL_ROWS) -> None:
    """Print what a statement did: its rows, or one line; ``more`` says how to get all rows where
    there are too many."""
    if outcome.rows is not None:
        deliver(outcome.rows, output, None, more=more)
    if outcome.statement in ("SELECT", "EXPLAIN"):
        return
    if output == "json" and outcome.rows is None:
        show_json(
            {
                "statement": str(outcome.statement),
                "table": outcome.table,
                "version": outcome.version,
                "already": outcome.already,
                **outcome.counts,
            }
        )
    elif output == "table":
        say(str(outcome))


def _apart(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The URLs, and the SQL if the last word is some: it has a space, and a URL has none."""
    if not words:
        raise Usage('sql needs the URL of a lake or a table: blockstore sql lake "select …"')
    *urls, last = words
    if len(last.split()) > 1:
        if not urls:
            raise Usage('sql needs the URL of a lake or a table first: blockstore sql lake "…"')
        return urls, last
    return list(words), None


def _parsed(session: Session, text: str) -> list[Text]:
    texts = session.parse(text, files=True)
    for one in texts:
        if one.kind is Kind.COPY:
            wanted_copy(one)
    return texts


def _guarded(session: Session, step: Text | Block, doing: Doing, *, quiet: bool) -> list[Outcome]:
    if isinstance(step, Block):
        with commits_whole() as committing, _counting(Kind.COMMIT, doing, quiet=quiet) as counting:
            return carry_out(session, step, counting.committing(committing))
    if step.kind is Kind.COPY:
        return [copy(session, step, doing, quiet=quiet)]
    if not (step.changes or step.defines):
        return [session.run(step, doing)]
    with commits_whole() as committing, _counting(step.kind, doing, quiet=quiet) as counting:
        return [session.run(step, counting.committing(committing))]


@contextmanager
def _counting(kind: Kind, doing: Doing, *, quiet: bool) -> Iterator[Doing]:
    """The same, with the number of rows shown while they are computed."""
    with rows_so_far(str(kind), quiet=quiet) as advance:
        yield replace(doing, advance=advance)


@contextmanager
def commits_whole() -> Iterator[threading.Event]:
    """While the event that this returns is set, Ctrl-C waits: what was computed is committed first,
    and then the interruption is raised."""
    committing, missed = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield committing
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        if committing.is_set():
            missed.set()
        elif callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield committing
    finally:
        signal.signal(signal.SIGINT, before)
    if missed.is_set():
        raise KeyboardInterrupt


class _Shell:
    """Statements that are typed."""

    def __init__(self, session: Session, doing: Doing, output: str) -> None:
        self._session = session
        self._doing = doing
        self._output = output
        self._quiet = output != "table"
        self._interrupts = Interrupts()
        self._transaction: Transaction | None = None
        self._typed: list[str] = []
        """The lines of the statement that is being typed."""

    def loop(self) -> None:
        """Read statements and run them until the end of the input."""
        if sys.stdout.isatty():
            known = counted(len(self._session.tables.names()), "table")
            say(f"{known}. A statement ends with ;  \\? for help, \\q to leave")
        with lines(self._completions) as remember, self._interrupts.heard():
            while True:
                text = self._next_text()
                if text is None:
                    break
                remember(text)
                if not self._asked(text):
                    self._run(text)
        if self._transaction is not None:
            complain("the transaction had no COMMIT, and nothing of it was changed")

    def _next_text(self) -> str | None:
        """What is typed next; Ctrl-C begins it again, also one after the other."""
        while True:
            try:
                try:
                    return self._read()
                except KeyboardInterrupt:
                    say("")
            except KeyboardInterrupt:
                continue

    def _read(self) -> str | None:
        """A text that ends with ``;``, or a word for the shell; None at the end."""
        typed: list[str] = []
        self._typed = typed
        while True:
            try:
                with self._interrupts.typing():
                    line = input(_MORE if typed else self._prompt())
            except EOFError:
                if sys.stdout.isatty():
                    say("")
                return None
            first = not typed
            if first and line.strip().rstrip("; ").lower() in _LEAVE:
                return None
            typed.append(line)
            text = "\n".join(typed)
            if not text.strip("; \t\n"):
                typed.clear()
            elif is_complete(text) or (first and _is_word(line)):
                return text

    def _prompt(self) -> str:
        if self._transaction is None:
            return _FIRST
        return _FAILED if self._transaction.failed else _OPEN

    def _asked(self, text: str) -> bool:
        """Answer a word for the shell; False for a statement."""
        asked = text.strip().rstrip("; ").lower()
        if asked in _HELP:
            for line in _ABOUT.splitlines():
                say(line)
        elif asked in _TABLES:
            for name in self._session.tables.names():
                say(name)
        elif asked.startswith("\\d "):
            self._run(f"DESCRIBE {text.strip()[3:]}")
        elif _is_word(text):
            word = asked.split()[0]
            complain(f"{word} is nothing that this shell knows: \\? shows what it knows")
        else:
            return False
        return True

    def _run(self, text: str) -> None:
        before = self._transaction
        try:
            with self._interrupts.running():
                for one in _parsed(self._session, text):
                    self._one(one)
        except BlockstoreError as error:
            complain(str(error))
        except KeyboardInterrupt:
            complain("interrupted")
        else:
            return
        if before is not None and before is self._transaction:
            before.failed = True

    def _one(self, text: Text) -> None:
        transaction = self._transaction
        if text.kind is Kind.BEGIN:
            if transaction is not None:
                raise BadSql("a transaction is open already: end it with COMMIT or ROLLBACK")
            self._transaction = Transaction(self._session, self._doing)
        elif text.kind is Kind.ROLLBACK:
            self._ended(text)
            self._show(Outcome(statement=text.kind))
        elif text.kind is Kind.COMMIT:
            ended = self._ended(text)
            with commits_whole() as committing:
                ended.marks = self._doing.committing(committing).marks
                self._show(ended.commit())
        elif transaction is not None and text.changes:
            with _counting(text.kind, self._doing, quiet=self._quiet) as counting:
                outcome = transaction.run(text, counting)
            self._show(outcome)
        elif transaction is not None:
            self._show(transaction.run(text))
        else:
            for outcome in _guarded(self._session, text, self._doing, quiet=self._quiet):
                self._show(outcome)

    def _show(self, outcome: Outcome) -> None:
        with nullcontext() if self._quiet else paged():
            show(outcome, self._output, more="COPY (SELECT …) TO 'file.csv' writes all")

    def _ended(self, text: Text) -> Transaction:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            raise BadSql(f"{text.kind} ends nothing: a transaction begins with BEGIN")
        return transaction

    def _completions(self, word: str, line: str) -> list[str]:
        """Words, tables, and the columns of the tables that the statement names."""
        tables = self._session.tables.names()
        said = set(re.findall(r"\w+", "\n".join([*self._typed, line]).lower()))
        columns: list[str] = []
        for name in (one for one in tables if one.lower() in said):
            with suppress(BlockstoreError):
                columns += self._session.tables.open(name).definition.schema.names
        alias, dot, _ = word.rpartition(".")
        if dot:
            known = [f"{alias}.{column}" for column in columns]
        else:
            words = map(str.lower, _WORDS) if word.islower() else _WORDS
            known = [*tables, *columns, *words]
        return [one for one in dict.fromkeys(known) if one.lower().startswith(word.lower())]


def _is_word(line: str) -> bool:
    """Whether a first line is for the shell: no statement begins so."""
    return line.lstrip().startswith(("\\", ".", "?")) or (
        line.strip().rstrip("; ").lower() in _HELP | _TABLES
    )


def is_complete(text: str) -> bool:
    """Whether a text ends with ``;``, outside of quotes and comments."""
    try:
        tokens = tokens_of(text)
    except BlockstoreError:
        return False  # a quote is still open
    return bool(tokens) and tokens[-1].text == ";" and not tokens[-1].is_text
