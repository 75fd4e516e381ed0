"""Running a streaming query to its end, on a machine that is busy with other tests.

Spark gives a new Python process ten seconds to say hello, and fails the query if it is late; no setting changes that. Such a
query is started again with its checkpoint, as its user would.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

__all__ = ["run_to_end"]

LATE = "Python worker failed to connect back"
_TRIES = 5


def run_to_end(start: Callable[[], StreamingQuery], *, deadline_s: float = 240) -> None:
    """Start a query that ends by itself, and wait for it. Raises what ended it, TimeoutError if nothing did."""
    for tries in range(1, _TRIES + 1):
        query = start()
        try:
            if not query.awaitTermination(int(deadline_s)):
                raise TimeoutError(f"the query did not end within {deadline_s:.0f} s")
            return
        except StreamingQueryException as error:
            if LATE not in str(error) or tries == _TRIES:
                raise
        finally:
            query.stop()
