"""The command ``blockstore``: find the verb, load it and no other, run it, and turn errors into
exit codes.

Exit codes: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted. An error is one sentence
on standard error; a traceback is shown only with ``--debug``. A verb that has changed something
succeeds even if its output cannot be written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blockstore.cli import rooms
from blockstore.cli.failure import Usage, heed_interrupts, report, report_lost_output
from blockstore.cli.lean import collects_rarely, leave, without_algebra_threads, without_pandas
from blockstore.cli.streams import Output, prepare
from blockstore.cli.verbs import READS, VERBS, load
from blockstore.extras import missing

if TYPE_CHECKING:
    from cyclopts import App


_DEBUG = "--debug"
_HELP = ("--help", "-h")


def main() -> None:
    """The entry point of the command."""
    heed_interrupts()
    words = sys.argv[1:]
    changes = _changes(words)
    if not changes:
        collects_rarely()
    output = prepare(lasting=changes)
    if words and (words[0] in VERBS or words[0] in rooms.VERBS):
        without_pandas()
        without_algebra_threads()
    code = run(words)
    if output is None:
        sys.exit(code)
    code = _ended(output, code)
    if not changes:
        leave(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    words, debug = _without_debug(arguments)
    try:
        return _run(words)
    except BaseException as error:
        if debug and not isinstance(error, SystemExit | BrokenPipeError):
            raise
        return report(error, changes=_changes(words))


def _ended(output: Output, code: int) -> int:
    """Flush the output and return the exit code.

    It is 0 for a change that is done, even if nothing reads the output.
    """
    reported = output.failure is not None and not output.lasting
    try:
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - whatever it is, the verb is over and its code is known
        if not reported:
            code = report(error, changes=False)
    if output.lasting and output.failure is not None:
        report_lost_output(output, code)
    # Python flushes once more when it ends: drop what is still buffered.
    output.lasting = True
    return code


def _changes(words: Sequence[str]) -> bool:
    """Return whether the command line may change something; true for an unknown verb."""
    if not words or words[0].startswith("-") or words[0] in READS or words[0] in rooms.READS:
        return False
    return not {"--dry-run", "--plan", "--help", "-h"} & set(words)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the words without ``--debug``, which may be anywhere before a ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word != _DEBUG] + list(arguments[end:])
    return words, len(words) < len(arguments)


def _run(words: list[str]) -> int:
    if not words or words[0] in _HELP:
        from blockstore.cli.overview import overview

        sys.stdout.write(overview())
        return 0 if words else 2
    if words[0] == "--version":
        from blockstore.cli.overview import version

        sys.stdout.write(version() + "\n")
        return 0
    verb = words[0]
    if verb not in VERBS and verb not in rooms.VERBS:
        from blockstore.cli.overview import unknown

        raise Usage(unknown(verb))
    try:
        return _run_verb(verb, words)
    except ModuleNotFoundError as error:
        raise missing(error, f"the verb {verb}", rooms.extra_of(verb)) from error


def _run_verb(verb: str, words: list[str]) -> int:
    run_it = rooms.at_once(verb, words[1:]) if verb in rooms.VERBS else None
    if run_it is not None:
        run_it()
        return 0
    app = _app()
    from inspect import getdoc

    function = load(verb) if verb in VERBS else rooms.load(verb)
    function.__doc__ = _unwrapped(getdoc(function) or "")
    app.command(function, name=verb)
    result = _call(app, words)
    return result if isinstance(result, int) else 0


def _app() -> App:
    from cyclopts import App, Parameter

    from blockstore.cli.overview import ABOUT, EPILOGUE

    return App(
        name="blockstore",
        help=ABOUT,
        help_epilogue=EPILOGUE,
        help_format="plaintext",
        version_flags=[],
        default_parameter=Parameter(show_default=_shown_default),
        suppress_keyboard_interrupt=False,
    )


def _shown_default(value: object) -> str | None:
    """Return a default as the help shows it; None for one that only means "not given"."""
    return None if value is None or value is False or value in ("", ()) else str(value)


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph: the terminal's width decides where help breaks."""
    lines: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        before = lines[-1] if lines else ""
        joins = before.strip() and not before.endswith("---") and line.strip("- ")
        if joins and len(before) - len(before.lstrip()) == indent:
            lines[-1] = f"{before} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _call(app: App, words: list[str]) -> Any:
    from cyclopts import CycloptsError

    try:
        return app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        text = " ".join(str(error).split()).rstrip(".")
        if text.startswith("Unused Tokens"):
            text = "too many words: " + text.partition(":")[2].strip(" []").replace("'", "")
        raise Usage(f"{text[:1].lower()}{text[1:]}; see blockstore {words[0]} --help") from None
