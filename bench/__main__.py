"""``python -m bench``, which is what ``scripts/bench`` calls."""

from bench.cli import app

app()
