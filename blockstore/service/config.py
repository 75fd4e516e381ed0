"""The configuration of a process: sections of declared keys, read from one TOML file and the
environment.

A process declares a ``ConfigFile``: its sections, each of ``Key``s with a default as a person
writes it, a reader and a sentence. Everything else follows from the declaration: what is accepted,
the file under ``configs/`` and its page.

Rules:
- Every key has a default. ``BLOCKSTORE_<SECTION>_<KEY>`` in the environment overrides the file.
- An unknown key is refused, with the nearest known one; all problems of the file and of the
  environment are told at once.
- A secret never stands in the file: it comes from the environment, or from a file that
  ``<key>_file`` names.
- A section becomes one frozen value, checked when it is built; a ``Named`` table
  (``[tables."name"]``) holds overrides by name, of which only what was written is kept.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from blockstore.errors import Invalid

T = TypeVar("T")
Reader = Callable[[Any, str], Any]
"""From a value as TOML or the environment holds it, and what an error calls it, to the program's
own. Raises Invalid."""

_PREFIX = "BLOCKSTORE_"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that no log and no error shows."""

    text: str

    def __repr__(self) -> str:
        return "Secret(***)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key: its name in the file, what it is for, its default as a person writes it, and how it
    is read.

    A list in the environment is separated by commas; the reader gets the text. A ``secret`` has no
    default: it is a ``Secret``, or None where it was not given.
    """

    name: str
    sentence: str
    default: object = ""
    read: Reader
    sets: str = ""
    """The field of the section's value; the key's own name if empty."""
    secret: bool = False

    @property
    def field(self) -> str:
        """The field that the key sets."""
        return self.sets or self.name

    @property
    def written(self) -> str:
        """The name under which the key stands in the file."""
        return f"{self.name}_file" if self.secret else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[T]):
    """One table of the file;

    ``build`` makes its value of all fields and raises Invalid where they do not agree.
    """

    name: str
    sentence: str
    keys: tuple[Key, ...]
    build: Callable[..., T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Tables of overrides by name, ``[<name>."<who>"]``: any of the keys, none of them required."""

    name: str
    sentence: str
    keys: tuple[Key, ...]
    example: str
    """A name, for the file that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What was read: one value a section, and the overrides by name."""

    values: Mapping[str, object]
    named: Mapping[str, Mapping[str, Mapping[str, object]]]

    def of(self, section: Section[T]) -> T:
        """The value of a section."""
        return cast(T, self.values[section.name])

    def overrides(self, named: Named) -> Mapping[str, Mapping[str, object]]:
        """By name, the fields that were overridden."""
        return self.named[named.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """The declaration of a process's configuration."""

    name: str
    """The file's name under ``configs/``."""
    about: str
    sections: tuple[Section[Any], ...]
    named: tuple[Named, ...] = ()
    check: Callable[[Config], Iterable[str]] = field(default=lambda config: ())
    """Problems between sections, one sentence each."""

    def load(
        self, path: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Config:
        """The configuration of a file (or none) under the environment.

        Raises Invalid, naming every problem.
        """
        document = {} if path is None else _document(path)
        return _Loading(
            self, str(path), document, os.environ if environment is None else environment
        ).run()


class _Loading:
    """One loading: collects values and problems."""

    def __init__(
        self, file: ConfigFile, path: str, document: dict[str, Any], environment: Mapping[str, str]
    ) -> None:
        self._file = file
        self._path = path
        self._document = document
        self._environment = environment
        self._problems: list[str] = []

    def run(self) -> Config:
        known = [
            *(one.name for one in self._file.sections),
            *(one.name for one in self._file.named),
        ]
        for name, value in self._document.items():
            if name not in known:
                self._problems.append(_unknown("table", f"[{name}]", name, known, self._path))
            elif not isinstance(value, dict):
                self._problems.append(
                    f"{name} in {self._path} is {value!r}, expected a table [{name}]"
                )
        values = {section.name: self._section(section) for section in self._file.sections}
        named = {one.name: self._named(one) for one in self._file.named}
        config = Config(values=values, named=named)
        if not self._problems:
            self._problems += self._file.check(config)
        if self._problems:
            raise Invalid("; ".join(self._problems))
        return config

    def _section(self, section: Section[Any]) -> object:
        given = {
            name: (value, f"[{section.name}] of {self._path}")
            for name, value in self._table(section.name).items()
        }
        given |= self._from_environment(section)
        fields = {
            key.field: None if key.secret else key.read(key.default, key.name)
            for key in section.keys
        }
        fields |= self._read(section.keys, given)
        try:
            return section.build(**fields)
        except Invalid as error:
            self._problems.append(str(error))
            return None

    def _named(self, named: Named) -> dict[str, Mapping[str, object]]:
        found: dict[str, Mapping[str, object]] = {}
        for who, table in self._table(named.name).items():
            where = f'[{named.name}."{who}"] of {self._path}'
            if isinstance(table, dict):
                found[who] = self._read(
                    named.keys, {name: (value, where) for name, value in table.items()}
                )
            else:
                self._problems.append(f"{where} is {table!r}, expected a table")
        return found

    def _table(self, name: str) -> dict[str, Any]:
        table = self._document.get(name, {})
        return table if isinstance(table, dict) else {}

    def _read(
        self, keys: tuple[Key, ...], given: Mapping[str, tuple[Any, str]]
    ) -> dict[str, object]:
        """The fields of what was given; a problem for each that cannot be read."""
        by_name = {key.written: key for key in keys}
        fields: dict[str, object] = {}
        for name, (value, where) in given.items():
            key = by_name.get(name)
            try:
                if isinstance(value, Secret):
                    fields[next(one.field for one in keys if one.name == name)] = value
                elif key is None:
                    self._problems.append(_refused(name, where, keys))
                elif key.secret:
                    fields[key.field] = _secret_of(value, f"{name} in {where}")
                else:
                    fields[key.field] = key.read(value, f"{name} in {where}")
            except Invalid as error:
                self._problems.append(str(error))
        return fields

    def _from_environment(self, section: Section[Any]) -> dict[str, tuple[Any, str]]:
        """What the environment says of a section; the longest section name that fits a variable
        takes it."""
        longer = [
            one.name for one in self._file.sections if one.name.startswith(f"{section.name}_")
        ]
        secrets = {key.name for key in section.keys if key.secret}
        found: dict[str, tuple[Any, str]] = {}
        for variable, text in self._environment.items():
            if not variable.startswith(_variable(section.name)):
                continue
            if any(variable.startswith(_variable(one)) for one in longer):
                continue
            name = variable.removeprefix(_variable(section.name)).lower()
            found[name] = (
                Secret(text) if name in secrets else text,
                f"the environment variable {variable}",
            )
        return found


def _variable(section: str) -> str:
    return f"{_PREFIX}{section.upper()}_"


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise Invalid(f"there is no configuration file {path}: check --config") from None
    except OSError as error:
        raise Invalid(
            f"the configuration file {path} cannot be read ({error.strerror}): check --config"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not TOML ({error}): correct it") from None


def _secret_of(value: object, name: str) -> Secret | None:
    if not isinstance(value, str):
        raise Invalid(f"{name} is {value!r}, expected the path of a file")
    if not value:
        return None
    try:
        return Secret(Path(value).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"{name} is {value!r}, which cannot be read ({error}): write the secret there"
        ) from None


def _refused(name: str, where: str, keys: tuple[Key, ...]) -> str:
    secret = next((key for key in keys if key.secret and key.name == name), None)
    if secret is not None:
        return (
            f"{name} in {where} is a secret, and none stands in a file of settings: set "
            f"{secret.written}, or the "
            "environment variable"
        )
    return _unknown("key", name, name, [key.written for key in keys], where)


def _unknown(kind: str, shown: str, name: str, known: list[str], where: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the {kind}s are {', '.join(known)}"
    return f"unknown {kind} {shown} in {where}: {hint}"
