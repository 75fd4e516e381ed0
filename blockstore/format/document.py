"""Stored JSON, read with suspicion: what every decoder of this format stands on.

Rules:
- Duplicate keys, NaN and Infinity, numbers beyond 64 bits, text that is not UTF-8, trailing bytes
  and anything that is not one JSON object are Corrupt.
- A field is taken only through a method that checks its type and its bounds; an error names the
  object and the field, what was found and what was expected. Nothing is guessed and nothing is
  coerced.
- An object may begin with its own seal, ``check``: the SHA-256 of all bytes after it. One that does
  not fit is Corrupt, so no flipped bit becomes another value. Where it does not stand first it is
  no seal: an earlier release has carried it over from the object that it rewrote. Objects of
  earlier releases have none.
- Fields that nobody asked for are unknown, not wrong: ``rest`` hands them over so that a rewrite
  keeps them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
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
    """The JSON object of these bytes, which has at least one field and no whitespace before it,
    with its seal in front."""
    rest = data[1:]
    return _BEGINS + hashlib.sha256(rest).hexdigest().encode("ascii") + b'",' + rest


def parse(data: bytes, subject: str) -> Document:
    """The JSON object in ``data``;

    ``subject`` is what errors call it, such as ``block 01…: meta.json``.
    """
    if data.startswith(_BEGINS) and not _fits(data):
        raise Corrupt(
            f"{subject} holds {len(data)} bytes that do not match the SHA-256 with which they "
            "begin: restore it from a copy"
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
            # Half of a surrogate pair is no text: what cannot be written again is refused here.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Corrupt(
            f"{subject} is not valid JSON ({error}), {len(data)} bytes: it was cut or "
            "overwritten, restore it from a copy"
        ) from None
    if not isinstance(value, dict):
        raise Corrupt(
            f"{subject} holds {_shown(value)}, expected a JSON object: restore it from a copy"
        )
    value.pop(_SEAL, None)
    return Document(value, subject)


def _fits(data: bytes) -> bool:
    """Whether the bytes are those that their seal was made of."""
    return sealed(b"{" + data[_SEAL_LENGTH:]) == data


def _as_we_write_it(data: bytes) -> dict[str, object] | None:
    """The object, if these are the very bytes that this project writes for it; None says nothing
    against them.

    Bytes that come back the same hold no doubled key, no odd number and nothing besides: the quick
    way needs none of the slow one's looks. A reader of an index decodes an entry for every write of
    everybody.
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

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        self._taken.add(name)
        return self._value.get(name) is not None

    def text(self, name: str, default: str | None = None, *, limit: int = 10_000_000) -> str:
        """A string of at most ``limit`` characters."""
        # As ``_take``, written out: a block has a dozen texts and integers, a table many blocks.
        self._taken.add(name)
        value = self._value.get(name)
        if value is None:
            value = default
        if not isinstance(value, str) or len(value) > limit:
            self.fail(name, f"a string of at most {limit:,} characters")
        return value

    def ulid(self, name: str) -> str:
        """A ULID in canonical form."""
        value = self._take(name, None)
        if not isinstance(value, str) or not is_ulid(value):
            self.fail(name, "a ULID (26 characters, upper case)")
        return value

    def ulids(self, name: str) -> tuple[str, ...]:
        """A list of ULIDs, in the order given."""
        values = self.items(name)
        for value in values:
            if not isinstance(value, str) or not is_ulid(value):
                self.fail(name, f"ULIDs only, but it holds {_shown(value)}")
        return tuple(values)  # type: ignore[arg-type]

    def integer(
        self, name: str, default: int | None = None, *, low: int = 0, high: int = INT64_MAX
    ) -> int:
        """An integer from ``low`` to ``high``, both inclusive."""
        self._taken.add(name)
        value = self._value.get(name)
        if value is None:
            value = default
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"an integer from {low} to {high}")
        return value

    def time(self, name: str, default: int | None = None) -> int:
        """An integer of milliseconds (or seconds) that fits 64 bits, negative before 1970."""
        return self.integer(name, default, low=_INT64_MIN)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            self.fail(name, "true or false")
        return value

    def choice(self, name: str, values: Iterable[str], default: str | None = None) -> str:
        """One of a few words."""
        value = self.text(name, default)
        known = tuple(values)
        if value not in known:
            self.fail(name, "one of " + ", ".join(known))
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of strings."""
        values = self.items(name, default)
        if not all(isinstance(value, str) for value in values):
            self.fail(name, "a list of strings")
        return tuple(values)  # type: ignore[arg-type]

    def pairs(self, name: str) -> dict[str, str]:
        """An object whose values are strings; missing is empty."""
        value = self._take(name, {})
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            self.fail(name, "an object of strings")
        return dict(value)

    def items(
        self, name: str, default: tuple[object, ...] | None = None
    ) -> list[object] | tuple[object, ...]:
        """A list of anything."""
        value = self._take(name, default)
        if not isinstance(value, (list, tuple)):
            self.fail(name, "a list")
        return value

    def document(self, name: str) -> Document:
        """A nested object."""
        value = self._take(name, None)
        if not isinstance(value, dict):
            self.fail(name, "an object")
        return Document(value, self.subject, self._where(name) + ".")

    def documents(self, name: str, default: tuple[object, ...] | None = None) -> Iterator[Document]:
        """A list of nested objects."""
        for position, value in enumerate(self.items(name, default)):
            where = f"{self._where(name)}[{position}]"
            if not isinstance(value, dict):
                raise Corrupt(f"{self.subject}: {where} is {_shown(value)}, expected an object")
            yield Document(value, self.subject, where + ".")

    def base64(self, name: str) -> bytes:
        """Bytes written in base 64."""
        text = self.text(name)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            self.fail(name, "base 64")

    def names(self) -> Iterator[str]:
        """The names of all fields; each counts as taken."""
        self._taken.update(self._value)
        return iter(self._value)

    def has_only(self, names: frozenset[str]) -> bool:
        """Whether no field but these is there."""
        return self._value.keys() <= names

    def raw(self, name: str) -> object:
        """The field as JSON gave it, or None; for values whose type only the caller knows."""
        self._taken.add(name)
        return self._value.get(name)

    def rest(self) -> dict[str, object]:
        """The fields that no method has taken."""
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
        raise ValueError(f"the key {twice[:_SHOWN]!r} stands twice in one object")
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
