"""The clock of a store whose client shows no headers: the Date of an unsigned request to its
endpoint.

Rules:
- The time is never ahead of the store's clock: the Date of a response not older than a minute,
  plus our time since. A refusal has a Date too; without one, the time is ours.
- A first commit needs the time. ``soon`` requests it in a spare thread while the block is uploaded,
  so that the commit need not wait for another connection and another round trip.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import Clock
from blockstore.errors import Unavailable
from blockstore.freshness import Freshness

_DATE_LASTS_S = 60.0
_DATE_TIMEOUT_S = 10.0


class EndpointClock:
    """The time of the store at ``endpoint``, which messages call ``place``."""

    def __init__(
        self, endpoint: Callable[[], str], place: str, clock: Clock, spare: Spare | None
    ) -> None:
        self._endpoint = endpoint
        self._place = place
        self._clock = clock
        self._spare = spare
        self._date: tuple[Freshness, int] | None = None
        self._coming: tuple[int, threading.Event] | None = None

    def now_ms(self) -> int:
        """Return the store's time; costs a request once a minute.

        Raises Unavailable if the endpoint does not respond.
        """
        coming = self._coming
        if coming is not None and coming[0] == os.getpid():
            coming[1].wait()
        date = self._date
        if date is None or date[0].is_over:
            date = self._date = self._fetch()
        fresh, store_ms = date
        return store_ms + int(fresh.passed_s * 1000)

    def soon(self) -> None:
        """Request the time in a spare thread, if there is one and the time is not known."""
        if self._spare is None or (self._date is not None and not self._date[0].is_over):
            return
        coming = self._coming
        if coming is not None and coming[0] == os.getpid() and not coming[1].is_set():
            return
        ended = threading.Event()

        def fetch() -> None:
            try:
                self._date = self._fetch()
            except Unavailable:
                pass  # now_ms sends its own request, and raises its error
            finally:
                ended.set()

        if self._spare.run(fetch):
            self._coming = (os.getpid(), ended)

    def _fetch(self) -> tuple[Freshness, int]:
        # Imported here: they take longer than obstore, and most processes need no time of a store.
        import http.client
        import urllib.error
        import urllib.request
        from email.utils import parsedate_to_datetime

        request = urllib.request.Request(self._endpoint(), method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=_DATE_TIMEOUT_S) as response:
                date = response.headers.get("Date")
        except urllib.error.HTTPError as refusal:
            date = refusal.headers.get("Date")
            refusal.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unavailable(
                f"the store of {self._place} did not return its time ({error}): check its endpoint "
                "and the network"
            ) from error
        try:
            store_ms = int(parsedate_to_datetime(date or "").timestamp() * 1000)
        except ValueError:
            store_ms = self._clock.now_ms()
        return Freshness(self._clock, _DATE_LASTS_S), store_ms
