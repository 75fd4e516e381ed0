"""The configuration's file, read again while the gateway runs: who may come in is exchanged.

Rules:
- A file that cannot be used as a whole changes nothing: the tokens of before remain, and the log
  and ``/-/ready`` say so until a file can be used.
- Only tokens, issuers and groups are exchanged. The rest is used by the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from blockstore.reader.http.gate import Gate
from blockstore.reader.settings.file import load_settings
from blockstore.reader.settings.values import GatewaySettings
from blockstore.service.watched_files import WatchedFiles

_logger = logging.getLogger(__name__)


class Watched:
    """A configuration file whose tokens a gate goes by."""

    def __init__(
        self,
        path: Path,
        gate: Gate,
        read: Callable[[Path], GatewaySettings] = load_settings,
    ) -> None:
        self._path = path
        self._gate = gate
        self._read = read
        self._file = WatchedFiles(path)

    def look(self, *, asked: bool = False) -> None:
        """Use the file if it has changed, or if the operator has ``asked``. Never raises."""
        if asked:
            _logger.info("%s is read again, as SIGHUP asks: tokens and policies", self._path)
        elif not self._file.have_changed():
            return
        try:
            read = self._read(self._path)
            if self._gate.exchange(read.tokens):
                count = len(read.tokens)
                _logger.info("%s has changed: %d tokens are known now", self._path, count)
            if self._gate.people.exchange(read.issuers, read.groups):
                _logger.info("%s has changed: other issuers or groups count now", self._path)
        except Exception as error:  # noqa: BLE001 - whatever a file has, a gateway goes on
            self._gate.broken = (
                f"the configuration has changed and cannot be used, so the tokens of before "
                f"remain: {error}"
            )
            _logger.error("%s", self._gate.broken)
