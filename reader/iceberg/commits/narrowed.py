"""What of an Avro file is decoded, and what its schema may be.

A client writes the schema of its manifests, and decoding follows it: a type within itself fills the
stack, which ends the process; items of no bytes are counted for ever; and many small items that
nothing looks at fill the memory.
"""

from __future__ import annotations

from typing import Any

from blockstore.errors import Invalid

_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_OTHER = frozenset({"null", "record", "error", "array", "map", "fixed", "enum", "union"})
_KEPT = frozenset(
    {
        *("manifest_path", "status", "data_file", "content", "file_path", "file_format"),
        *("partition", "record_count"),
    }
)
_RECORDS = frozenset({"data_file", "partition"})


def narrowed(schema: Any, key: str) -> dict[str, Any]:
    """Return the schema of a file with the fields alone that a commit looks at. Raises Invalid for
    a schema by which a small file could decode to anything."""
    if not _Check(key).takes_bytes(schema, frozenset()):
        raise _refused(key, "rows of no bytes")
    return _record(schema, key)


def _record(schema: Any, key: str, *, whole: bool = False) -> dict[str, Any]:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _refused(key, "another type where a record is expected")
    kept = []
    for one in schema["fields"]:
        if one["name"] in _RECORDS and not whole:
            kind = _record(one["type"], key, whole=one["name"] == "partition")
            kept.append({**one, "type": kind})
        elif whole or one["name"] in _KEPT:
            if not _is_scalar(one["type"]):
                raise _refused(key, f"a nested type in the field {str(one['name'])[:100]!r}")
            kept.append(one)
    return {**schema, "fields": kept}


def _is_scalar(kind: Any) -> bool:
    if isinstance(kind, list):
        return all(one == "null" or _is_scalar(one) for one in kind)
    if isinstance(kind, dict):
        return kind["type"] == "fixed" or _is_scalar(kind["type"])
    return kind in _PRIMITIVE


class _Check:
    """Looks at the types of one schema."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._named: dict[str, bool] = {}
        """Whether a value of each named type takes bytes."""

    def takes_bytes(self, kind: Any, within: frozenset[str]) -> bool:
        """Whether each value of a type takes bytes. ``within`` are the types around it. Raises
        Invalid for a type that is refused."""
        match kind:
            case str():
                return kind in _PRIMITIVE or self._known(kind, within)
            case list():
                for one in kind:
                    if one != "null":
                        self.takes_bytes(one, within)
                return True
            case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
                inner = within | {_last(name)}
                takes = [self.takes_bytes(one["type"], inner) for one in fields]
                return self._named.setdefault(_last(name), any(takes))
            case {"type": "array", "items": items} | {"type": "map", "values": items}:
                if not self.takes_bytes(items, within):
                    raise _refused(self._key, "items of no bytes")
                return True
            case {"type": "enum", "name": str(name)}:
                return self._named.setdefault(_last(name), True)
            case {"type": "fixed", "name": str(name), "size": int(size)} if size > 0:
                return self._named.setdefault(_last(name), True)
            case {"type": other} if not isinstance(other, str) or other not in _OTHER:
                return self.takes_bytes(other, within)
        raise _refused(self._key, f"the type {str(kind)[:100]}")

    def _known(self, name: str, within: frozenset[str]) -> bool:
        """A type that is named: one without bytes could be named again and again."""
        if _last(name) in within or not self._named.get(_last(name)):
            raise _refused(self._key, f"the type {name[:100]!r} where it cannot be")
        return True


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _refused(key: str, what: str) -> Invalid:
    return Invalid(f"the file {key} cannot be read as a manifest: its schema has {what}")
