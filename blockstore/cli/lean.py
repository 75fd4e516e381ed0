"""Shortcuts for the start and the end of the program ``blockstore``.

A program that imports the package gets none of them: the command alone calls these functions. The
bench ``start`` measures what they bring.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib.machinery import ModuleSpec
from typing import NoReturn

__all__ = ["collects_rarely", "leave", "without_algebra_threads", "without_pandas"]

_OBJECTS = 500_000


class _NoPandas:
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("this command does not use pandas", name="pandas")
        return None


def without_pandas() -> None:
    """From now on, importing pandas fails in this process as if it were not installed, until
    pyspark is loaded.

    pyarrow imports pandas at the first list that it turns into an array, wherever pandas is
    installed; that doubles the time that a short command takes. Only for verbs that use no pandas;
    pyspark does nothing with Arrow without pandas, so a process that has loaded it finds pandas as
    ever.
    """
    sys.meta_path.insert(0, _NoPandas())


def collects_rarely() -> None:
    """Let the garbage collector wait for more objects: loading modules makes many, and all of them
    stay.

    Only for a verb that changes nothing: what goes on for days, such as a gateway, is collected as
    Python means it.
    """
    gc.set_threshold(_OBJECTS)


def without_algebra_threads() -> None:
    """numpy's linear algebra starts a thread a core when it is loaded; nothing here multiplies
    matrices."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def leave(code: int) -> NoReturn:
    """End the process: what is registered for its end is done, and what it holds in memory is not
    taken apart piece by piece.

    Only for a verb that changed nothing: no thread of it is waited for.
    """
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(code)
