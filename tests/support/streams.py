"""Running a streaming query to its end, on a machine that is busy with other tests.

Spark gives a new Python process ten seconds to say hello, and fails the query if it is late; no
setting changes that. Such a query is started again with its checkpoint, as its user would, for as
long as the deadline allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

__all__ = ["run_to_end"]

LATE = "Python worker failed to connect back"


def run_to_end(start: Callable[[], StreamingQuery], *, deadline_s: float = 900) -> None:
    """Start a query that ends by itself, and wait for it.

    Raises what ended it, TimeoutError if nothing did.
    """
    until_s = time.monotonic() + deadline_s
    while True:
        query = start()
        try:
            if not query.awaitTermination(max(1, int(until_s - time.monotonic()))):
                raise TimeoutError(f"the query did not end within {deadline_s:.0f} s")
            return
        except StreamingQueryException as error:
            if LATE not in str(error) or time.monotonic() > until_s:
                raise
        finally:
            query.stop()
