"""What the environment says of a store, where no client could use it: refused before any request.

Each client fails in its own way at such a value: one panics, one retries for a minute, one reports
a network that cannot be reached.
"""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from blockstore.errors import Invalid

_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
}
_SENT = {"s3": "AWS_", "az": "AZURE_"}
"""Whose values are parts of requests. Google's key is a document of several lines."""
_NEVER_SENT = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def check_environment(scheme: str) -> None:
    """Raise Invalid, naming the variable, if a setting of the scheme's stores cannot be used. A
    value is shown only where it is no secret."""
    for variable in _ENDPOINTS.get(scheme, ()):
        address = os.environ.get(variable)
        if address == "":
            raise Invalid(f"{variable} is empty: unset it, or set the store's address")
        if address and not _SCHEME.match(address):
            bare = address.rpartition("://")[2]
            raise Invalid(
                f"{variable} is {address!r}, expected an address with its scheme: write "
                f"http://{bare} or https://{bare}"
            )
        if address and not _has_host(address):
            raise Invalid(
                f"{variable} is {address!r}, expected an address as http://HOST or "
                "https://HOST:PORT"
            )
    prefix = _SENT.get(scheme)
    for variable, value in os.environ.items():
        if prefix is None or not variable.startswith(prefix) or not _NEVER_SENT.search(value):
            continue
        if value.rstrip() == value:
            raise Invalid(f"{variable} has a control character inside: set it without")
        raise Invalid(
            f"{variable} ends with a line break or a control character: set it without, as "
            'export NAME="$(cat FILE)" does with the text of a file'
        )


def _has_host(address: str) -> bool:
    """Whether the address names a host, and no port or one that there is."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and " " not in address and parts.port != 0
    except ValueError:
        return False
