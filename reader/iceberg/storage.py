"""What an engine gets to reach the files of a lake: properties of Iceberg from the operator's file.

Rules:
- Only a token that may know all tables gets them: with the keys of a store an engine reads every
  file that the keys may read. Where no token is required, no one gets any.
- A token with the scope ``write`` gets those for writing.
- The file is read with each table, so that keys can be changed while the gateway runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from blockstore.errors import Unavailable
from blockstore.reader.http.tokens import ANYONE, Caller, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The files with the properties for the engines of one lake."""

    read: Path | None = None
    write: Path | None = None
    """For tokens that may write; None for the same."""

    def properties(self, caller: Caller) -> Mapping[str, str]:
        """The properties for an engine of this caller. Raises Unavailable if the file does not
        have them."""
        path = self.write if self.write and caller.may(Scope.WRITE) else self.read
        if path is None or caller is ANYONE or caller.tables is not None:
            return {}
        try:
            found = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise Unavailable(
                f"the gateway cannot read {path.name}, which has the properties for engines"
            ) from error
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise Unavailable(f"{path.name} has no JSON object of texts, for the gateway's engines")
        return found


NOTHING = Storage()
"""Engines have keys of their own."""
