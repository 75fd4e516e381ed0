"""The settings of a gateway: one TOML file, the environment, and their values.

A gateway reads one file (``configs/reader.toml`` shows every key at its default). An environment
variable overrides a key, and URLs on the command line override those of the file. All problems of
a file are reported at once.

    FILE              the declaration of every section and key (file.py); configs/reader.toml and
                      docs/configuration.md are generated from it
    load_settings     a file and the environment → GatewaySettings
    Watched           the file again, when it changes (watching.py)
    GatewaySettings   the values, one frozen dataclass a section (values.py)

Example::

    settings = load_settings(Path("reader.toml"))
    gateway = Gateway(settings, World.real())
"""

from blockstore.reader.settings.file import FILE, load_settings
from blockstore.reader.settings.values import (
    AuditSettings,
    CacheSettings,
    DoorSettings,
    GatewaySettings,
    HttpSettings,
    JobSettings,
    QuerySettings,
    TableSettings,
)
from blockstore.reader.settings.watching import Watched

__all__ = [
    "FILE",
    "AuditSettings",
    "CacheSettings",
    "DoorSettings",
    "GatewaySettings",
    "HttpSettings",
    "JobSettings",
    "QuerySettings",
    "TableSettings",
    "Watched",
    "load_settings",
]
