"""SQL over snapshots, by DuckDB."""

from reader.query.ask import query
from reader.query.engine import Answer, Engine
from reader.query.instance import Limits

__all__ = ["Answer", "Engine", "Limits", "query"]
