"""The certificate of a server, read again while it runs.

Rules:
- New files are used if they fit each other. Else clients get the certificate of before.
- Connections that are open keep theirs.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from blockstore.errors import Invalid
from blockstore.service.listening import Listening
from blockstore.service.watched_files import WatchedFiles

_logger = logging.getLogger(__name__)


class Certificate:
    """The certificate and the key of an address. Raises Invalid if they cannot be used."""

    def __init__(self, listening: Listening) -> None:
        self.context: ssl.SSLContext | None = None
        """What a server encrypts with; None where the address has no certificate."""
        self._files = [one for one in (listening.tls_cert, listening.tls_key) if one is not None]
        self._watched = WatchedFiles(*self._files)
        if self._files:
            self.context = _context()
            _use(self.context, *self._files)

    def look(self) -> None:
        """Use the files from now on if they have changed. Never raises."""
        if self.context is None or not self._watched.have_changed():
            return
        try:
            # A context that fails half-way would keep a certificate without its key.
            _use(_context(), *self._files)
            _use(self.context, *self._files)
        except Invalid as error:
            _logger.error("%s; clients get the certificate of before", error)
        else:
            _logger.info("the certificate %s has changed and is used from now on", self._files[0])


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _use(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"the certificate {cert} or its key {key} cannot be used: {error}") from error
