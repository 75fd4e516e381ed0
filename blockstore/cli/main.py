"""The command ``blockstore``: finds the verb, loads it and no other, runs it, and turns errors into exit codes.

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted. An error is one sentence on standard error; a
traceback is shown only with ``--debug``. A verb that has changed something is done even if its answer cannot be written.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from blockstore.cli import rooms
from blockstore.cli.failure import Usage, report, unanswered
from blockstore.cli.lean import without_pandas
from blockstore.cli.streams import Output, prepare
from blockstore.cli.verbs import OTHER_NAMES, READS, VERBS, load

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["main", "run"]

_DEBUG = "--debug"
_HELP = ("--help", "-h")
_ABOUT = "Tables on object storage: immutable blocks, one compactor, exact snapshots."
_EPILOGUE = (
    "URL is a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or memory://name. "
    "`blockstore VERB --help` explains a verb; --debug shows the traceback of an error."
)


def main() -> None:
    """The entry point of the command."""
    words = sys.argv[1:]
    output = prepare(lasting=_changes(words))
    if words and (words[0] in VERBS or (words[0] in rooms.names() and rooms.is_lean(words[0]))):
        without_pandas()
    code = run(words)
    sys.exit(code if output is None else _ended(output, code))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and answer its exit code."""
    words, debug = _without_debug(arguments)
    try:
        return _run(words)
    except BaseException as error:
        if debug and not isinstance(error, SystemExit | BrokenPipeError):
            raise
        return report(error, changes=_changes(words))


def _ended(output: Output, code: int) -> int:
    """Write what is still held, and answer the exit code: 0 for a change that is done, whoever gets its answer."""
    told = output.failure is not None and not output.lasting
    try:
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - whatever it is, the verb is over and its code is known
        if not told:
            code = report(error, changes=False)
    if output.lasting and output.failure is not None:
        unanswered(output, code)
    # Python flushes once more at its end: what is still held goes nowhere.
    output.lasting = True
    return code


def _changes(words: Sequence[str]) -> bool:
    """Whether the command line may change something; of a verb that is not known, such as a room's, it is assumed."""
    if not words or words[0].startswith("-") or words[0] in READS:
        return False
    if words[0] not in VERBS and words[0] in rooms.names() and rooms.only_reads(words[0]):
        return False
    return not {"--dry-run", "--plan", "--help", "-h"} & set(words)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The words without ``--debug``, which may stand anywhere before a ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word != _DEBUG] + list(arguments[end:])
    return words, len(words) < len(arguments)


def _run(words: list[str]) -> int:
    app = _app()
    if not words or words[0] in (*_HELP, "--version"):
        _add_all(app)
        _call(app, words[:1] or [_HELP[0]])
        return 0 if words else 2
    verb = words[0]
    if verb in VERBS:
        app.command(load(verb), name=verb)
    elif verb in rooms.names():
        app.command(rooms.load(verb), name=verb)
    else:
        raise Usage(_unknown(verb))
    answer = _call(app, words)
    return answer if isinstance(answer, int) else 0


def _app() -> App:
    from cyclopts import App

    return App(
        name="blockstore",
        help=_ABOUT,
        help_epilogue=_EPILOGUE,
        help_format="plaintext",
        version=lambda: f"blockstore {version('blocklake')}",
        suppress_keyboard_interrupt=False,
    )


def _call(app: App, words: list[str]) -> Any:
    from cyclopts import CycloptsError

    try:
        return app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        text = " ".join(str(error).split()).rstrip(".")
        if text.startswith("Unused Tokens"):
            text = "more words than the verb takes: " + text.partition(":")[2].strip(" []").replace("'", "")
        raise Usage(f"{text[:1].lower()}{text[1:]}; see blockstore {words[0]} --help") from None


def _add_all(app: App) -> None:
    """Every verb with its sentence, for the overview; a room that cannot be loaded says so there."""
    for verb, sentence in VERBS.items():
        app.command(_named(verb), name=verb, help=sentence)
    for verb in rooms.names():
        app.command(_named(verb), name=verb, help=rooms.sentence(verb))


def _named(verb: str) -> Callable[[], None]:
    """A stand-in of this name: the overview shows verbs and runs none."""

    def stand_in() -> None:
        return None

    stand_in.__name__ = verb
    return stand_in


def _unknown(verb: str) -> str:
    known = [*VERBS, *rooms.names()]
    near = OTHER_NAMES.get(verb) or next(iter(difflib.get_close_matches(verb, known, n=1)), None)
    hint = f"did you mean {near}?" if near else f"the verbs are {', '.join(sorted(known))}"
    return f"there is no verb {verb!r}: {hint}"
