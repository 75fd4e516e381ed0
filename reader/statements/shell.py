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

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from blockstore.cli.failure import Usage, complain
from blockstore.cli.output import say, show_json
from blockstore.errors import BlockstoreError
from blockstore.format.block import Job
from blockstore.reader.errors import BadSql
from blockstore.reader.forms.deliver import deliver
from blockstore.reader.statements.copying import copy, wanted_copy
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.door import opened
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind, Text
from blockstore.reader.statements.tokens import tokens_of
from blockstore.reader.statements.transaction import Block, Transaction, carry_out, grouped

_FIRST, _MORE, _OPEN = "sql> ", "...> ", "sql*> "
_KEPT = 5_000
"""So many lines of history are kept."""
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
    urls, text = _told_apart(words)
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


def show(outcome: Outcome, output: str) -> None:
    """Print what a statement did: its rows, or one line."""
    if outcome.rows is not None:
        deliver(outcome.rows, output, None)
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


def _told_apart(words: Sequence[str]) -> tuple[list[str], str | None]:
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
        with commits_whole() as committing:
            return carry_out(session, step, doing.committing(committing))
    if step.kind is Kind.COPY:
        return [copy(session, step, doing, quiet=quiet)]
    if not (step.changes or step.defines):
        return [session.run(step, doing)]
    with commits_whole() as committing:
        return [session.run(step, doing.committing(committing))]


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
        self._transaction: Transaction | None = None

    def loop(self) -> None:
        """Read statements and run them until the end of the input."""
        with _lines(self._completions):
            while True:
                try:
                    text = self._read()
                except KeyboardInterrupt:
                    say("")
                    continue
                if text is None:
                    break
                self._run(text)
        if self._transaction is not None:
            complain("the transaction had no COMMIT, and nothing of it was changed")

    def _read(self) -> str | None:
        """A text that ends with ``;``; None at the end."""
        lines: list[str] = []
        while True:
            try:
                first = _FIRST if self._transaction is None else _OPEN
                line = input(_MORE if lines else first)
            except EOFError:
                return None
            if not lines and line.strip().lower() in ("exit", "quit", "\\q"):
                return None
            lines.append(line)
            text = "\n".join(lines)
            if not text.strip():
                lines = []
            elif is_complete(text):
                return text

    def _run(self, text: str) -> None:
        before = self._transaction
        try:
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
            show(Outcome(statement=text.kind), self._output)
        elif text.kind is Kind.COMMIT:
            ended = self._ended(text)
            with commits_whole() as committing:
                ended.marks = self._doing.committing(committing).marks
                show(ended.commit(), self._output)
        elif transaction is not None:
            show(transaction.run(text), self._output)
        else:
            quiet = self._output != "table"
            for outcome in _guarded(self._session, text, self._doing, quiet=quiet):
                show(outcome, self._output)

    def _ended(self, text: Text) -> Transaction:
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            raise BadSql(f"{text.kind} ends nothing: a transaction begins with BEGIN")
        return transaction

    def _completions(self, word: str) -> list[str]:
        known = [*self._session.tables.names(), *_WORDS]
        return [one for one in known if one.lower().startswith(word.lower())]


def is_complete(text: str) -> bool:
    """Whether a text ends with ``;``, outside of quotes and comments."""
    try:
        tokens = tokens_of(text)
    except BlockstoreError:
        return False  # a quote is still open
    return bool(tokens) and tokens[-1].text == ";" and not tokens[-1].is_text


@contextmanager
def _lines(completions: Callable[[str], list[str]]) -> Iterator[None]:
    """Editing, completion and history of lines, where Python has them."""
    try:
        import readline
    except ImportError:
        yield
        return
    kept = _history()

    def complete(word: str, number: int) -> str | None:
        found = completions(word)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_KEPT)
    with suppress(OSError):
        readline.read_history_file(kept)
    try:
        yield
    finally:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(kept)


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "blockstore" / "sql-history"
