"""Options that several verbs share, with one meaning everywhere."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

DryRun: TypeAlias = Annotated[bool, Parameter(negative="")]
"""``--dry-run``: say what would happen, and change nothing."""

Json: TypeAlias = Annotated[bool, Parameter(negative="")]
"""``--json``: one JSON document on standard output."""

Many: TypeAlias = tuple[str, ...]
"""An option that may be given several times."""
