"""The settings of one session: what clients set and show.

Rules:
- A setting that would change what a result contains is accepted only at the value that the gateway
  has: times are in UTC, texts are UTF-8, dates are ISO.
- ``statement_timeout`` ends a statement sooner than the gateway's own limit would.
- What changes nothing here (``application_name``, …) is kept and shown again.
- SET LOCAL holds until its transaction ends, and SET of one that is rolled back does not hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from blockstore.reader.postgres.states import BAD_SETTING, FEATURE, SYNTAX, Refused
from blockstore.reader.postgres.texts import Part

SERVER_VERSION = "15.0"
"""PostgreSQL's version whose protocol and catalog the door has; clients choose their queries by
it."""

_REPORTED = {
    "server_version": SERVER_VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "application_name": "",
    "is_superuser": "off",
    "session_authorization": "",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
}
"""Those that a client is sent when it connects and when they change."""
_OTHERS = {
    "search_path": '"$user", public',
    "transaction_isolation": "repeatable read",
    "default_transaction_isolation": "repeatable read",
    "transaction_read_only": "off",
    "transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "row_security": "on",
    "jit": "off",
    "max_identifier_length": "63",
    "server_version_num": "150000",
    "escape_string_warning": "on",
    "synchronous_commit": "on",
    "max_index_keys": "32",
    "lc_collate": "C",
    "lc_ctype": "C",
    "ssl_renegotiation_limit": "0",
}
_FIXED = {
    "server_version": None,
    "server_encoding": None,
    "server_version_num": None,
    "integer_datetimes": None,
    "in_hot_standby": None,
    "is_superuser": None,
    "max_identifier_length": None,
    "max_index_keys": None,
    "client_encoding": ("utf8", "utf-8", "unicode", "default"),
    "timezone": ("utc", "gmt", "etc/utc", "z", "0", "+00:00", "00:00", "zulu", "default", "local"),
    "standard_conforming_strings": ("on", "true", "1", "yes"),
    "bytea_output": ("hex",),
}
"""Those that have one value: its spellings; None: they cannot be set."""
_ALIASES = {
    "time zone": "timezone",
    "names": "client_encoding",
    "transaction isolation level": "transaction_isolation",
}


_TIMEOUT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h)?|(?i:default)")
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_OPTION = re.compile(r"(?<!\S)(?:-c\s*|--)([\w.-]+)=((?:\\.|\S)*)")
_NO_SETTINGS = frozenset({"user", "database", "options", "replication"})


class Variables:
    """The settings of a session."""

    def __init__(self, user: str) -> None:
        self._first = {**_OTHERS, **_REPORTED, "session_authorization": user}
        self._spelled = {name.lower(): name for name in self._first}
        self._values = dict(self._first)
        self._before: dict[str, str] | None = None
        self._kept = self._values
        """What is set for the session: in a transaction without what is set for that alone."""

    def begin(self) -> None:
        """A transaction begins."""
        self._before, self._kept = dict(self._values), dict(self._values)

    def end(self, *, committed: bool) -> list[tuple[str, str]]:
        """It has ended; return what a client is to be sent."""
        before, now = self._before, self._values
        if before is None:
            return []
        self._before = None
        self._kept = self._values = self._kept if committed else before
        return self._changed_since(now)

    def spelled(self, name: str) -> str:
        """The name of a setting as it is shown."""
        return self._own(name)

    def reported(self) -> list[tuple[str, str]]:
        """The settings that a client is sent when it connects."""
        return [(name, self._values[name]) for name in _REPORTED]

    def get(self, name: str) -> str:
        """The value of a setting. Raises Refused for an unknown one."""
        own = self._own(name)
        if own not in self._values:
            raise Refused("42704", f"there is no setting {name[:60]!r}: SHOW ALL lists them")
        return self._values[own]

    def all(self) -> Mapping[str, str]:
        """Every setting."""
        return dict(sorted(self._values.items(), key=lambda one: one[0].lower()))

    def set(self, name: str, value: str, *, local: bool = False) -> list[tuple[str, str]]:
        """Set one, ``local`` for the transaction that is open; return what a client is to be sent.
        Raises Refused for a value that the gateway does not have."""
        own = self._own(name)
        low = own.lower()
        if low in _FIXED:
            self._check_fixed(own, low, value)
            return []
        if low == "intervalstyle" and value.lower() not in ("postgres", "iso_8601", "default"):
            raise Refused(
                BAD_SETTING,
                f"IntervalStyle is {value[:40]!r}, expected postgres or iso_8601: the others are "
                "not written here",
            )
        if low == "datestyle":
            if "iso" not in value.lower() and value.lower() != "default":
                raise Refused(
                    BAD_SETTING, f"dates are written as ISO 8601 here, and DateStyle is {value!r}"
                )
            return []
        if low == "statement_timeout" and not _TIMEOUT.fullmatch(value.strip() or "default"):
            raise Refused(BAD_SETTING, f"statement_timeout is {value[:40]!r}, expected such as 5s")
        if low == "default_transaction_isolation":
            check_isolation([value.upper()])
        default = value.lower() == "default"
        if local and self._before is None:
            return []
        value = self._first.get(own, "") if default else value
        value = value.lower() if low == "intervalstyle" else value
        for values in (self._values,) if local else (self._values, self._kept):
            values[own] = value
        return [(own, self._values[own])] if own in _REPORTED else []

    def first(self, name: str, value: str) -> str:
        """Set what the first message of a client asks for; return a warning, or nothing. JDBC sends
        the time zone of its machine, and would not connect if it were refused."""
        if self._own(name) == "TimeZone" and value.lower() not in (_FIXED["timezone"] or ()):
            return f"times are in UTC here, and the time zone {value[:60]!r} was not set"
        self.set(name, value)
        return ""

    def reset(self, name: str | None = None) -> list[tuple[str, str]]:
        """Set one to its first value, or all; return what a client is to be sent."""
        before = dict(self._values)
        own = None if name is None else self._own(name)
        for values in (self._values, self._kept):
            if own is None:
                values.clear()
                values.update(self._first)
            elif own in self._first:
                values[own] = self._first[own]
            else:
                values.pop(own, None)
        return self._changed_since(before)

    def _changed_since(self, before: Mapping[str, str]) -> list[tuple[str, str]]:
        return [
            (one, self._values[one]) for one in _REPORTED if before.get(one) != self._values[one]
        ]

    @property
    def timeout_s(self) -> float | None:
        """``statement_timeout`` in seconds; None without one."""
        found = _TIMEOUT.fullmatch(self._values["statement_timeout"].strip())
        given = found is not None and found[1] is not None
        seconds = float(found[1]) * _UNITS[found[2] or "ms"] if found and given else 0.0
        return seconds or None

    @property
    def iso_intervals(self) -> bool:
        """Whether intervals are written as ISO 8601 has them."""
        return self._values["IntervalStyle"] == "iso_8601"

    def _own(self, name: str) -> str:
        low = " ".join(name.lower().split())
        low = _ALIASES.get(low, low)
        return self._spelled.get(low, low)

    def _check_fixed(self, own: str, low: str, value: str) -> None:
        allowed = _FIXED[low]
        if allowed is None:
            raise Refused("55P02", f"the setting {own} cannot be changed")
        if value.strip().strip("'\"").lower() not in allowed:
            raise Refused(
                BAD_SETTING,
                f"the setting {own} is {self._values[own]} here and cannot be {value[:60]!r}: "
                "convert values in the client or in the SQL",
            )


def reads_only(words: Sequence[str]) -> bool | None:
    """Whether a transaction is READ ONLY by these words; None if they say nothing of it."""
    pairs = set(pairwise(words))
    return ("READ", "ONLY") in pairs if pairs & {("READ", "ONLY"), ("READ", "WRITE")} else None


def check_isolation(words: Sequence[str]) -> None:
    """Raise Refused for an isolation that transactions do not have here."""
    if "SERIALIZABLE" in words:
        raise Refused(
            FEATURE,
            "a transaction is REPEATABLE READ here, and changes of the same rows conflict: "
            "SERIALIZABLE is not possible",
        )


def assign(variables: Variables, part: Part) -> list[tuple[str, str]]:
    """Carry out a SET; return what a client is to be sent. Raises Refused."""
    tokens = list(part.tokens[1:])
    local = tokens[:1] != [] and tokens[0].word == "LOCAL"
    if tokens and tokens[0].word in ("SESSION", "LOCAL") and len(tokens) > 1:
        tokens.pop(0)
    words = [one.word for one in tokens]
    if words[:1] in (["TRANSACTION"], ["CHARACTERISTICS"]):
        check_isolation(words)
        only = reads_only(words)
        if only is None or words[0] == "TRANSACTION":
            return []
        return variables.set("default_transaction_read_only", "on" if only else "off")
    if words[:1] in (["ROLE"], ["AUTHORIZATION"]):
        raise Refused(BAD_SETTING, "the role is that of the token and cannot be set")
    if words[:2] == ["TIME", "ZONE"]:
        interval = words[2:3] == ["INTERVAL"]  # INTERVAL '+00:00' HOUR TO MINUTE
        given = tokens[3:4] if interval else tokens[2:]
        return variables.set("timezone", "".join(one.text for one in given))
    if words[:1] == ["NAMES"]:
        return variables.set("client_encoding", "".join(one.text for one in tokens[1:]))
    if words[:1] == ["XML"] or len(tokens) < 3:
        raise Refused(SYNTAX, "SET has a name and a value: SET name = value")
    at = next((at for at, one in enumerate(tokens) if one.text in ("=",) or one.word == "TO"), 0)
    if not at:
        raise Refused(SYNTAX, "SET has a name and a value: SET name = value")
    name = "".join(one.text for one in tokens[:at])
    value = "".join(
        ", " if one.text == "," and not one.is_text else one.text for one in tokens[at + 1 :]
    )
    return variables.set(name, value, local=local)


def assignments(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings among the options of a client's first message. Raises Refused for a client that
    wants to replicate."""
    if options.get("replication", "false").lower() not in ("false", "off", "0", "no"):
        raise Refused(FEATURE, "the replication protocol is not served here")
    for name, value in options.items():
        if name not in _NO_SETTINGS and not name.startswith("_pq_."):
            yield name, value
    for name, value in _OPTION.findall(options.get("options", "")):
        yield name.replace("-", "_"), value.replace("\\", "")


def table_of(variables: Variables, part: Part) -> pa.Table:
    """The rows of a SHOW. Raises Refused."""
    name = " ".join(one.text for one in part.tokens[1:]).replace(" . ", ".")
    if name.upper() == "ALL":
        every = variables.all()
        return pa.table(
            {
                "name": list(every),
                "setting": list(every.values()),
                "description": [""] * len(every),
            }
        )
    return pa.table({variables.spelled(name): [variables.get(name)]})
