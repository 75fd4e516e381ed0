"""The group of gateways that one belongs to: section ``[peers]`` of ``reader.toml``."""

from __future__ import annotations

from typing import Any

from blockstore.reader.peers import PeerSettings
from blockstore.reader.peers.address import Address, parsed
from blockstore.service import kinds
from blockstore.service.config import Key, Section


def _address(value: Any, name: str) -> Address:
    return parsed(kinds.text(value, name), name)


PEERS = Section(
    name="peers",
    sentence="The group of gateways that this one belongs to: a query is passed on to the gateway "
    "that caches its table.",
    build=PeerSettings,
    keys=(
        Key(
            name="self",
            sets="own",
            default="",
            read=kinds.optional(_address),
            sentence="This gateway, as the others know it: one of urls, or with dns its own "
            'address, such as "https://10.0.0.7:8080".',
        ),
        Key(
            name="urls",
            default=[],
            read=kinds.items(_address),
            sentence="All gateways of the group; none for no group.",
        ),
        Key(
            name="dns",
            default="",
            read=kinds.optional(_address),
            sentence="Instead of urls, a name whose addresses are the gateways, with scheme and "
            'port, such as "https://gateways.internal:8080".',
        ),
        Key(
            name="lookup",
            sets="lookup_s",
            default="10s",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="How often the name is looked up.",
        ),
        Key(
            name="retry",
            sets="retry_s",
            default="5s",
            read=kinds.between(kinds.duration_s, 0.05),
            sentence="For how long a gateway that did not respond is left out at least; after that "
            "until it is ready.",
        ),
        Key(
            name="tls_ca",
            default="",
            read=kinds.path,
            sentence="The certificates (PEM) that are trusted for https; empty for the system's.",
        ),
        Key(
            name="plain_http",
            default=False,
            read=kinds.switch,
            sentence="Allow http beyond this machine: tokens and rows are then sent unencrypted.",
        ),
    ),
)
