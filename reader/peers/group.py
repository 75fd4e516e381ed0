"""The group of a gateway, as its operator configures it.

Rule: an operator who sends tokens in cleartext to other machines has said so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from blockstore.errors import Invalid
from blockstore.reader.peers.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """The group of gateways that this one belongs to."""

    own: Address | None = None
    urls: tuple[Address, ...] = ()
    dns: Address | None = None
    lookup_s: float = 10.0
    retry_s: float = 5.0
    tls_ca: Path | None = None
    plain_http: bool = False

    def __post_init__(self) -> None:
        if not self.any:
            return
        if self.urls and self.dns is not None:
            raise Invalid("[peers] has urls and dns: keep one of them")
        if self.own is None:
            raise Invalid("[peers] has no self: give this gateway's own address")
        if self.dns is None and self.own not in self.urls:
            raise Invalid(
                f"self of [peers] is {self.own.url}, which is not one of urls: spell it as there"
            )
        if self.dns is not None:
            alike = (self.own.scheme, self.own.port) == (self.dns.scheme, self.dns.port)
            if self.own.ip is None or not alike:
                raise Invalid(
                    f"self of [peers] is {self.own.url}, expected this gateway's own address (a "
                    f"number) with the scheme and the port of dns ({self.dns.url})"
                )
        given = self.urls if self.dns is None else (self.dns,)
        plain = next((one for one in given if one.plain), None)
        if plain is not None and not self.plain_http:
            raise Invalid(
                f"[peers] names {plain.url}, to which tokens would be sent unencrypted: use https, "
                "or set plain_http where the network is your own"
            )

    @property
    def hosts(self) -> list[str]:
        """The hosts of the group, as they are named here."""
        return [one.host for one in (self.own, self.dns, *self.urls) if one is not None]

    @property
    def any(self) -> bool:
        """Whether there is a group."""
        return bool(self.urls) or self.dns is not None
