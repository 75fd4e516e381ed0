"""A job of a gateway, for its owner."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from blockstore.client.atomic_file import atomic_file
from blockstore.client.wire import BadRow, Wire, conflict, pieces
from blockstore.errors import Invalid, NotFound, Unavailable

OnProgress = Callable[[Mapping[str, Any]], None]
"""Called with the job's state, as the gateway returns it, from time to time."""

JOB = ("id", "state")
"""What the gateway says of every job."""

_ENDED = ("done", "failed", "cancelled")


class RemoteJob:
    """A job; ``told`` is the last state that the gateway returned."""

    def __init__(self, wire: Wire, told: Mapping[str, Any]) -> None:
        self._wire = wire
        self.told = dict(told)

    @property
    def id(self) -> str:
        """The id, which is the same on every gateway of the lake."""
        return str(self.told["id"])

    @property
    def state(self) -> str:
        """The last known state: queued, running, cancelling, done, failed or cancelled."""
        return str(self.told["state"])

    def refresh(self) -> RemoteJob:
        """Request the present state."""
        self.told = self._wire.json("GET", f"/v1/jobs/{self.id}", needs=JOB)
        return self

    def cancel(self) -> RemoteJob:
        """Cancel the job."""
        self.told = self._wire.json("DELETE", f"/v1/jobs/{self.id}", needs=JOB)
        return self

    def wait(
        self, timeout_s: float = 3600.0, *, progress: OnProgress | None = None, every_s: float = 0.5
    ) -> RemoteJob:
        """Wait until the job has ended. Raises Invalid if it failed or was cancelled (``told`` has
        the reason), RowConflict or NotFound if rows were not as expected, and Unavailable after
        ``timeout_s``: the job continues, and ``wait`` may be called again."""
        clock = self._wire.world.clock
        until_s = clock.monotonic_s() + timeout_s
        pause_s = min(every_s, 0.05)
        while True:
            if progress is not None:
                progress(self.told)
            if self.state in _ENDED:
                break
            if clock.monotonic_s() >= until_s:
                raise Unavailable(
                    f"job {self.id} is {self.state} after {timeout_s:g} s: wait for it again"
                )
            clock.sleep(pause_s)
            pause_s = min(every_s, pause_s * 2)
            self.refresh()
        if self.state != "done":
            error = self.told.get("error") or {}
            message = str(error.get("message") or f"job {self.id} was {self.state}")
            match error.get("error"):
                case "conflict":
                    raise conflict(message, error)
                case "not_found":
                    raise NotFound(message)
                case "bad_row":
                    raise BadRow(message)
                case _:
                    raise Invalid(message)
        return self

    def save(self, path: str | os.PathLike[str], *, progress: OnProgress | None = None) -> int:
        """Download the file of the job; it appears at ``path`` only when it is complete. Return its
        size in bytes."""
        wanted, got = int((self.told.get("result") or {}).get("bytes", -1)), 0
        with (
            self._wire.answer("GET", f"/v1/jobs/{self.id}/result") as found,
            atomic_file(path, self._wire.world.ids) as file,
        ):
            for piece in pieces(found):
                file.write(piece)
                got += len(piece)
                if progress is not None:
                    progress({**self.told, "fetched": got})
            if wanted >= 0 and got != wanted:
                raise Unavailable(
                    f"job {self.id}: received {got:,} of {wanted:,} bytes: download the file again"
                )
        return got
