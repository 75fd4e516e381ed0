"""Where the gateway serves other protocols than HTTP: sections of ``reader.toml``."""

from __future__ import annotations

from blockstore.reader.settings.values import DoorSettings
from blockstore.service.config import Key, Section
from blockstore.service.listening import address


def _door(*, listen: tuple[str, int]) -> DoorSettings:
    return DoorSettings(host=listen[0], port=listen[1])


def _door_key(port: int) -> Key:
    return Key(
        name="listen",
        default="",
        read=address,
        sentence=f'The address and port, such as "0.0.0.0:{port}"; empty to close the door.',
    )


FLIGHT = Section(
    name="flight",
    sentence="Arrow Flight SQL, for ADBC and JDBC. It uses the certificate and the limits of "
    "[http].",
    build=_door,
    keys=(_door_key(31_337),),
)

POSTGRES = Section(
    name="postgres",
    sentence="PostgreSQL's protocol, for its drivers and tools. It uses the certificate and the "
    "limits of [http].",
    build=_door,
    keys=(_door_key(5_432),),
)
