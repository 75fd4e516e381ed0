"""The log of a process: JSON for machines, readable text on a terminal, with fields such as table,
block and job.

Rules:
- A record is one line. It contains the fields that ``about`` set for the current work, and those
  that the call passed as ``extra``.
- Modules use the standard library's ``logging`` and do not import this one; a process calls
  ``set_up`` once.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

from blockstore.service import kinds
from blockstore.service.config import Key, Section

_NOTHING: Mapping[str, object] = MappingProxyType({})
_about: ContextVar[Mapping[str, object]] = ContextVar("blockstore_log_fields", default=_NOTHING)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = ("debug", "info", "warning", "error")
_NOISY = (
    "apscheduler",
    "boto3",
    "botocore",
    "s3transfer",
    "urllib3",
    "uvicorn",
    "asyncio",
    "py4j",
    "httpx",
    "httpcore",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The level and the style of the log."""

    level: str = "info"
    style: str = "auto"


LOG = Section(
    name="log",
    sentence="Log lines, on standard error.",
    build=LogSettings,
    keys=(
        Key(
            name="level",
            default="info",
            read=kinds.one_of(*_LEVELS),
            sentence="The lowest level that is logged: debug, info, warning or error.",
        ),
        Key(
            name="style",
            default="auto",
            read=kinds.one_of("auto", "json", "text"),
            sentence="json, text, or auto: text on a terminal, else json.",
        ),
    ),
)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Add fields to every record inside the block, such as ``table="flights"`` or
    ``job="…"``."""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def set_up(settings: LogSettings, stream: TextIO | None = None) -> logging.Handler:
    """Log to a stream, standard error by default; return the handler that was installed."""
    stream = sys.stderr if stream is None else stream
    at_terminal = stream is not None and stream.isatty()
    text = settings.style == "text" or (settings.style == "auto" and at_terminal)
    handler = logging.StreamHandler(stream)
    handler.addFilter(_add_fields)
    handler.setFormatter(TextLines() if text else JsonLines())
    root = logging.getLogger()
    for old in [one for one in root.handlers if getattr(one, "of_blockstore", False)]:
        root.removeHandler(old)
    handler.of_blockstore = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(settings.level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    return handler


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields, and a traceback if there
    is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """One readable line: time, level, fields, message."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        message = " ".join(record.getMessage().splitlines())
        line = f"{_time(record)} {record.levelname.lower():<7}{fields}  {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _add_fields(record: logging.LogRecord) -> bool:
    """Add the fields in the thread that logs; fields of the call override them."""
    for name, value in _about.get().items():
        if not hasattr(record, name):
            setattr(record, name, value)
    return True


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _shown(value: object) -> str:
    """The text, escaped if it is not printable: a table's name may contain anything."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
