"""Keeps pandas out of a process that does not use it.

pyarrow imports pandas at the first list that it turns into an array, wherever pandas is installed; that doubles the
time that a short command takes. Only the program ``blockstore`` does this, and only for verbs that use no pandas. pyspark does
without pandas nothing with Arrow, so a process that has loaded pyspark finds pandas as ever.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

__all__ = ["without_pandas"]


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("this command does not use pandas", name="pandas")
        return None


def without_pandas() -> None:
    """From now on, importing pandas fails in this process as if it were not installed, until pyspark is loaded."""
    sys.meta_path.insert(0, _NoPandas())
