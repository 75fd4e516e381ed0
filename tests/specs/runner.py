"""The runner of the models, scripts/models, as a module."""

from __future__ import annotations

import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
SPECS = ROOT / "specs"


def load_runner() -> ModuleType:
    """The script, loaded without leaving compiled files next to it."""
    loader = SourceFileLoader("blockstore_models", str(ROOT / "scripts" / "models"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


needs_spin = pytest.mark.skipif(
    shutil.which("spin") is None or shutil.which("gcc") is None,
    reason="spin and gcc are not installed: run scripts/setup --models",
)
