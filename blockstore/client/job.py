"""A job of a gateway, as its asker holds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from blockstore.client.atomic_file import atomic_file
from blockstore.client.wire import Wire, pieces
from blockstore.errors import Invalid, Unavailable

OnProgress = Callable[[Mapping[str, Any]], None]
"""Told of the job as the gateway tells it, now and then."""

_ENDED = ("done", "failed", "cancelled")


class RemoteJob:
    """A job; ``told`` is what the gateway said of it last."""

    def __init__(self, wire: Wire, told: Mapping[str, Any]) -> None:
        self._wire = wire
        self.told = dict(told)

    @property
    def id(self) -> str:
        """Its id, by which any gateway of the lake knows it."""
        return str(self.told["id"])

    @property
    def state(self) -> str:
        """queued, running, cancelling, done, failed or cancelled, as it was told last."""
        return str(self.told["state"])

    def refresh(self) -> RemoteJob:
        """Ask how far it is."""
        self.told = self._wire.json("GET", f"/v1/jobs/{self.id}")
        return self

    def cancel(self) -> RemoteJob:
        """Wish its end."""
        self.told = self._wire.json("DELETE", f"/v1/jobs/{self.id}")
        return self

    def wait(
        self, timeout_s: float = 3600.0, *, progress: OnProgress | None = None, every_s: float = 0.5
    ) -> RemoteJob:
        """Until it has ended. Raises Invalid if it failed or was cancelled (the reason stands in
        ``told``), Unavailable if it has not ended in time: it goes on, and can be waited for again.
        """
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
            raise Invalid(str(error.get("message") or f"job {self.id} was {self.state}"))
        return self

    def save(self, path: str | os.PathLike[str], *, progress: OnProgress | None = None) -> int:
        """Fetch the file that it made; it appears at ``path`` only when it is whole.

        Answers its bytes.
        """
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
                    f"job {self.id}: {got:,} bytes came of {wanted:,}: fetch it again"
                )
        return got
