"""What a client changes of a table's columns, as the body of ``PATCH /v1/tables``. Pure.

Rules:
- A field is the same by its id. One that the table lacks is a new column, which receives an id of
  the table's own; one that the client leaves out is dropped.
- A label is a column for Iceberg only, and stays as it is. So do the fields within columns.
- The client must require the schema from which it set out: a column that came since would be
  missing in what it sends, and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.iceberg.columns import column_of, name_of, type_of
from blockstore.reader.iceberg.commits.required import Required
from blockstore.reader.iceberg.documents import number_of, objects_of

_DEFAULTS = ("initial-default", "write-default")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns(Required):
    """The columns that a table is to have."""

    schema: Mapping[str, Any]
    """As Iceberg's schema."""

    def body(self, current: Mapping[str, Any], labels: frozenset[int]) -> dict[str, Any]:
        """Return what changes.

        Args:
            current: The schema of the table.
            labels: The ids of those fields of it that are labels.

        Raises:
            Invalid: No alter does this.
        """
        before = {field["id"]: field for field in current["fields"]}
        after = {number_of(field, "id"): field for field in objects_of(self.schema, "fields")}
        if len(after) < len(self.schema["fields"]):
            raise Invalid("the schema has two fields with one id")
        if _key(self.schema) != _key(current):
            raise Invalid("the key of a table is chosen when it is created: leave it as it is")
        for own in labels:
            if not _same(before[own], after.get(own, {})):
                raise Invalid(
                    f"{before[own]['name']!r} is a label of blocks, and no column that can be "
                    "changed or dropped"
                )
        added = {own: field for own, field in after.items() if own not in before}
        for field in added.values():
            _check_new(field)
        kept = [own for own in before if own in after and own not in labels]
        wanted = [name_of(field) for own, field in after.items() if own not in labels]
        order = [name_of(after[own]) for own in kept] + [name_of(one) for one in added.values()]
        return {
            "add": [column_of(field) for field in added.values()],
            "drop": [field["name"] for own, field in before.items() if own not in after],
            "rename": {
                before[own]["name"]: name_of(after[own])
                for own in kept
                if name_of(after[own]) != before[own]["name"]
            },
            "widen": {
                before[own]["name"]: type_of(after[own].get("type"), before[own]["name"])
                for own in kept
                if _changes_type(before[own], after[own])
            },
            "columns": {
                before[own]["name"]: rules
                for own in kept
                if (rules := _rules(before[own], after[own]))
            },
            "reorder": wanted if wanted != order else [],
        }


def _key(schema: Mapping[str, Any]) -> list[Any]:
    found = schema.get("identifier-field-ids") or []
    return sorted(found, key=str) if isinstance(found, list) else [found]


def _same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return all(after.get(name) == before[name] for name in ("name", "type", "required"))


def _check_new(field: Mapping[str, Any]) -> None:
    if any(field.get(name) is not None for name in _DEFAULTS):
        raise Invalid(
            f"column {name_of(field)[:200]!r} has a default: add the column without one, and set "
            "its default with Blockstore"
        )


def _changes_type(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    was, wanted = before["type"], after.get("type")
    if isinstance(was, str) and isinstance(wanted, str):
        return was.replace(" ", "") != wanted.replace(" ", "")
    if was != wanted:
        raise Invalid(
            f"column {before['name']!r} is nested, and its fields cannot be changed: add another "
            "column"
        )
    return False


def _rules(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    if after.get("required", False) != before["required"]:
        rules["not_null"] = bool(after.get("required", False))
    if after.get("doc") != before.get("doc"):
        rules["description"] = after.get("doc") or None
    return rules
