"""The output of ``blockstore --help``: every verb with its sentence, without loading any."""

from __future__ import annotations

import difflib
import textwrap

from blockstore.cli import rooms
from blockstore.cli.verbs import OTHER_NAMES, VERBS

ABOUT = "Tables on object storage: immutable blocks, one compactor, exact snapshots."
EPILOGUE = (
    "URL is a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix, "
    "az://container/prefix or memory://name. "
    "`blockstore VERB --help` explains a verb; --debug shows the traceback of an error."
)

_WIDTH = 80
_ALIKE = 0.75
"""How similar a typed word must be to a verb to be suggested: about one wrong letter."""


def overview() -> str:
    """Return the overview: every verb with its sentence."""
    sentences = [*VERBS.items(), *rooms.VERBS.items()]
    indent = max(len(verb) for verb, _ in sentences) + 4
    shown = [
        textwrap.fill(
            sentence,
            _WIDTH,
            initial_indent=f"  {verb}".ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
        for verb, sentence in sentences
    ]
    end = textwrap.fill(EPILOGUE, _WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join(["Usage: blockstore VERB", "", ABOUT, "", *shown, "", end, ""])


def version() -> str:
    """Return the name and the version of the installed program."""
    from importlib import metadata

    return f"blockstore {metadata.version('blocklake')}"


def unknown(verb: str) -> str:
    """Return the message for an unknown verb: a similar verb if there is one, else all verbs."""
    known = [*VERBS, *rooms.VERBS]
    near = OTHER_NAMES.get(verb) or next(
        iter(difflib.get_close_matches(verb, known, n=1, cutoff=_ALIKE)), None
    )
    hint = f"did you mean {near}?" if near else f"the verbs are {', '.join(sorted(known))}"
    return f"there is no verb {verb!r}: {hint}"
