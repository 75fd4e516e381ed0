"""Stored JSON, read strictly: the base of every decoder of this format.

Rules:
- Duplicate keys, NaN and Infinity, numbers beyond 64 bits, text that is not UTF-8, trailing bytes
  and anything that is not one JSON object are Corrupt.
- A field is read only by a method that checks its type and its bounds; an error names the object
  and the field, what was found and what was expected. Nothing is guessed or coerced.
- An object may begin with its own seal, ``check``: the SHA-256 of all bytes after it. A seal that
  does not match is Corrupt, so a flipped bit never becomes another value. In any other place
  ``check`` is not a seal: an earlier release copied it from the object that it rewrote. Objects of
  earlier releases have none.
- Fields that no method has read are unknown, not wrong: ``rest`` returns them, so that a rewrite
  keeps them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import NoReturn

import orjson

from blockstore.errors import Corrupt
from blockstore.names import is_ulid

INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_UINT64_MAX = 2**64 - 1
_SHOWN = 60
_SEAL = "check"
_BEGINS = b'{"check":"'
_SEAL_LENGTH = len(_BEGINS) + 64 + len('",')


def sealed(data: bytes) -> bytes:
    """Return the JSON object of these bytes with its seal in front.

    The object must have at least one field and no whitespace before it.
    """
    rest = data[1:]
    return _BEGINS + hashlib.sha256(rest).hexdigest().encode("ascii") + b'",' + rest


def parse(data: bytes, subject: str) -> Document:
    """Return the JSON object in ``data``; raise Corrupt.

    ``subject`` is its name in errors, such as ``block 01…: meta.json``.
    """
    if data.startswith(_BEGINS) and not _fits(data):
        raise Corrupt(
            f"{subject} has {len(data)} bytes that do not match the SHA-256 at their beginning: "
            "restore it from a copy"
        )
    quick = _as_we_write_it(data)
    if quick is not None:
        quick.pop(_SEAL, None)
        return Document(quick, subject)
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_float,
        )
        if "\\ud" in text.lower():
            # Half of a surrogate pair is not text: it could not be written again.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Corrupt(
            f"{subject} is not valid JSON ({error}), {len(data)} bytes: it is truncated or was "
            "overwritten, restore it from a copy"
        ) from None
    if not isinstance(value, dict):
        raise Corrupt(
            f"{subject} holds {_shown(value)}, expected a JSON object: restore it from a copy"
        )
    value.pop(_SEAL, None)
    return Document(value, subject)


def _fits(data: bytes) -> bool:
    """Return whether the bytes match their seal."""
    return sealed(b"{" + data[_SEAL_LENGTH:]) == data


def _as_we_write_it(data: bytes) -> dict[str, object] | None:
    """Return the object if these are exactly the bytes that this project writes for it.

    Such bytes have no repeated key, no odd number and nothing after the object, so the slow checks
    are not needed. None means that they are. Readers of an index decode every entry, so speed
    matters here.
    """
    try:
        value = orjson.loads(data)
        return value if isinstance(value, dict) and orjson.dumps(value) == data else None
    except (orjson.JSONDecodeError, TypeError):
        return None


class Document:
    """A JSON object and its name; each method takes one field, checked."""

    __slots__ = ("_path", "_taken", "_value", "subject")

    def __init__(self, value: Mapping[str, object], subject: str, path: str = "") -> None:
        self._value = value
        self._path = path
        self._taken: set[str] = set()
        self.subject = subject

    @property
    def fields(self) -> Mapping[str, object]:
        """All fields as JSON gave them; none counts as taken."""
        return self._value

    def has(self, name: str) -> bool:
        """Return whether the field is there and not null."""
        self._taken.add(name)
        return self._value.get(name) is not None

    def text(self, name: str, default: str | None = None, *, limit: int = 10_000_000) -> str:
        """Return a string of at most ``limit`` characters."""
        # As ``_take``, written out: a block has a dozen texts and integers, a table many blocks.
        self._taken.add(name)
        value = self._value.get(name)
        if value is None:
            value = default
        if not isinstance(value, str) or len(value) > limit:
            self.fail(name, f"a string of at most {limit:,} characters")
        return value

    def ulid(self, name: str) -> str:
        """Return a ULID in canonical form."""
        value = self._take(name, None)
        if not isinstance(value, str) or not is_ulid(value):
            self.fail(name, "a ULID (26 characters, upper case)")
        return value

    def ulids(self, name: str) -> tuple[str, ...]:
        """Return a list of ULIDs, in the order given."""
        values = self.items(name)
        for value in values:
            if not isinstance(value, str) or not is_ulid(value):
                self.fail(name, f"ULIDs only, but it holds {_shown(value)}")
        return tuple(values)  # type: ignore[arg-type]

    def integer(
        self, name: str, default: int | None = None, *, low: int = 0, high: int = INT64_MAX
    ) -> int:
        """Return an integer from ``low`` to ``high``, both inclusive."""
        self._taken.add(name)
        value = self._value.get(name)
        if value is None:
            value = default
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"an integer from {low} to {high}")
        return value

    def time(self, name: str, default: int | None = None) -> int:
        """Return an integer of milliseconds (or seconds) that fits 64 bits, negative before
        1970."""
        return self.integer(name, default, low=_INT64_MIN)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            self.fail(name, "true or false")
        return value

    def choice(self, name: str, values: Collection[str], default: str | None = None) -> str:
        """Return one of a few words."""
        value = self.text(name, default)
        if value not in values:
            self.fail(name, "one of " + ", ".join(values))
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self.items(name, default)
        if not all(isinstance(value, str) for value in values):
            self.fail(name, "a list of strings")
        return tuple(values)  # type: ignore[arg-type]

    def pairs(self, name: str) -> dict[str, str]:
        """Return an object whose values are strings; missing is empty."""
        value = self._take(name, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            self.fail(name, "an object of strings")
        return dict(value)

    def items(
        self, name: str, default: tuple[object, ...] | None = None
    ) -> list[object] | tuple[object, ...]:
        """Return a list of anything."""
        value = self._take(name, default)
        if not isinstance(value, (list, tuple)):
            self.fail(name, "a list")
        return value

    def document(self, name: str) -> Document:
        """Return a nested object."""
        value = self._take(name, None)
        if not isinstance(value, dict):
            self.fail(name, "an object")
        return Document(value, self.subject, self._where(name) + ".")

    def documents(self, name: str, default: tuple[object, ...] | None = None) -> Iterator[Document]:
        """Return a list of nested objects."""
        for position, value in enumerate(self.items(name, default)):
            where = f"{self._where(name)}[{position}]"
            if not isinstance(value, dict):
                raise Corrupt(f"{self.subject}: {where} is {_shown(value)}, expected an object")
            yield Document(value, self.subject, where + ".")

    def base64(self, name: str) -> bytes:
        """Return bytes written in base 64."""
        text = self.text(name)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail(name, "base 64")

    def names(self) -> Iterator[str]:
        """Return the names of all fields; each counts as taken."""
        self._taken.update(self._value)
        return iter(self._value)

    def has_only(self, names: frozenset[str]) -> bool:
        """Return whether there are no other fields than these."""
        return self._value.keys() <= names

    def raw(self, name: str) -> object:
        """Return the field as JSON gave it, or None; for values whose type only the caller
        knows."""
        self._taken.add(name)
        return self._value.get(name)

    def rest(self) -> dict[str, object]:
        """Return the fields that no method has read."""
        if self._value.keys() <= self._taken:
            return {}
        return {name: value for name, value in self._value.items() if name not in self._taken}

    def fail(self, name: str, expected: str) -> NoReturn:
        """Raise Corrupt for a field."""
        found = _shown(self._value[name]) if name in self._value else "missing"
        raise Corrupt(f"{self.subject}: {self._where(name)} is {found}, expected {expected}")

    def _take(self, name: str, default: object) -> object:
        self._taken.add(name)
        value = self._value.get(name)
        return default if value is None else value

    def _where(self, name: str) -> str:
        return f"{self._path}{name}"


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:_SHOWN]!r} occurs twice in one object")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 20 or not _INT64_MIN <= (value := int(digits)) <= _UINT64_MAX:
        raise ValueError(f"the integer {digits[:_SHOWN]} does not fit 64 bits")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:_SHOWN]} does not fit a double")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
