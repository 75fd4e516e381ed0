"""The audit log of a gateway: section ``[audit]`` of ``reader.toml``."""

from __future__ import annotations

from blockstore.reader.settings.values import AuditSettings
from blockstore.service import kinds
from blockstore.service.config import Key, Section

AUDIT = Section(
    name="audit",
    sentence="The audit log: a line of JSON for each statement, with its token, its text and what "
    "came of it.",
    build=AuditSettings,
    keys=(
        Key(
            name="file",
            default="",
            read=kinds.path,
            sentence="The file; empty for no audit log. A file that was moved away is made again. "
            "While it cannot be written the gateway is not ready.",
        ),
    ),
)
