"""Optional packages: the extras that install them, and the rooms that the foundation loads late.

One wheel has all the code. The rooms ``compactor``, ``reader`` and ``spark`` stand on the
foundation, which never imports them: where it needs a part of a room, it loads that part by name
when it is used. A package that is missing then is one sentence with the command that installs it.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from blockstore.errors import MissingExtra

_PROJECT = "blocklake"
_OTHER_NAMES = {"jwt": "pyjwt"}
"""Modules whose package has another name."""
_NO_ROOM = frozenset({"all", "bench", "dev", "docs"})
"""Extras that no message names: they install more than a user needs."""


def load(module: str, name: str, what: str) -> Any:
    """Load ``name`` from ``module``, a part of a room.

    Raises MissingExtra, with ``what`` as its subject, if a package that the module imports is not
    installed.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise missing(error, what, room_of(module)) from error


def room_of(module: str) -> str | None:
    """The room of a module's path, which is also the name of its extra; None for the foundation."""
    parts = module.split(".")
    return parts[1] if parts[1:2] and parts[1] in ("compactor", "reader", "spark") else None


def missing(error: ModuleNotFoundError, what: str, extra: str | None = None) -> MissingExtra:
    """The error that says what ``what`` needs and which command installs it.

    Args:
        error: Python's error; its ``name`` is the module that was not found.
        what: the subject of the sentence, such as ``"the verb query"``.
        extra: the extra to name where several install the package.
    """
    package = (error.name or str(error)).partition(".")[0]
    if package == "blockstore":
        return MissingExtra(
            f"{what} needs {error.name}, which this installation lacks: run pip install "
            f"--force-reinstall {_PROJECT}"
        )
    extras = _extras_with(package)
    chosen = extra if extra in extras else next(iter(extras), None)
    command = f"'{_PROJECT}[{chosen}]'" if chosen else package
    return MissingExtra(
        f"{what} needs {package}, which is not installed: run pip install {command}"
    )


def _extras_with(package: str) -> tuple[str, ...]:
    """The extras that install a package, by what the installed wheel says of itself; without those
    that bring all of another one, and more."""
    from importlib.metadata import PackageNotFoundError, requires  # slow to import, seldom needed

    try:
        lines = requires(_PROJECT) or []
    except PackageNotFoundError:  # a copy of the sources, as Spark's executors may have one
        return ()
    brought: dict[str, set[str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if name and extra:
            brought.setdefault(extra[1], set()).add(name[0].replace("_", "-").lower())
    wanted = _OTHER_NAMES.get(package, package).replace("_", "-").lower()
    found = {extra for extra, names in brought.items() if wanted in names} - _NO_ROOM
    return tuple(
        sorted(one for one in found if not any(brought[other] < brought[one] for other in found))
    )
