"""Where a gateway of a group is: ``scheme://host:port`` in one spelling.

Rules:
- Two spellings of one address are one text: members are compared, and hashed, by it.
- Plain HTTP beyond this machine needs the operator's word (``plain_http`` of ``[peers]``), since
  tokens are sent to members.
- Of the addresses that DNS returns, plain HTTP is spoken to those of private networks alone, so
  that a wrong answer cannot send tokens over the internet in cleartext.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from blockstore.errors import Invalid

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The place of a gateway."""

    scheme: str
    host: str
    """A name, or an address without brackets."""
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def plain(self) -> bool:
        """Whether others could read what is sent there."""
        return self.scheme == "http" and not self.loopback

    @property
    def loopback(self) -> bool:
        """Whether it is this machine."""
        ip = self.ip
        return self.host == "localhost" if ip is None else ip.is_loopback

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The address; None for a name."""
        try:
            found = ipaddress.ip_address(self.host)
        except ValueError:
            return None
        return getattr(found, "ipv4_mapped", None) or found

    @property
    def public(self) -> bool:
        """Whether it is an address of the internet."""
        ip = self.ip
        return ip is not None and ip.is_global


def parsed(text: str, name: str) -> Address:
    """The address of a URL; ``name`` says where it is written. Raises Invalid."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        parts, port, host = urlsplit(""), None, None
    bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    if parts.scheme not in _PORTS or not host or not bare or port == 0:
        raise Invalid(
            f"{name} is {text!r}, expected the address of a gateway such as "
            '"https://gateway-1.internal:8080", without a path'
        )
    return of_host(parts.scheme, host, port or _PORTS[parts.scheme])


def of_host(scheme: str, host: str, port: int) -> Address:
    """The address of a host, in its one spelling."""
    try:
        host = str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        host = host.lower().rstrip(".")
    return Address(scheme, host, port)
