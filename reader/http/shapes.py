"""The bodies of requests and responses, as the OpenAPI document shows them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from blockstore.errors import Invalid
from blockstore.reader.tables import At

Version = Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]
Moment = Annotated[StrictInt, Field(ge=0, le=2**52)] | Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(max_length=1_000)]
Limit = Annotated[StrictInt, Field(ge=0, le=2**62)]
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_DIGITS = 38
"""The digits of the widest decimal of the engine."""
Sql = Annotated[str, Field(min_length=1, max_length=200_000)]


class _Body(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class Question(_Body):
    """A query. At most one of ``version``, ``as_of`` and ``tag``; a version or a tag may be given
    per table. A parameter ``{"$decimal": "12.50"}`` is a decimal with these digits; a number with a
    fraction is a float."""

    sql: Sql
    version: Version | dict[Name, Version] | None = None
    as_of: Moment | None = None
    tag: Name | dict[Name, Name] | None = None
    limit: Limit | None = None
    parameters: list[Any] | dict[str, Any] | None = None


class JobAsked(_Body):
    """A query or a download of one table, written to a file."""

    kind: Literal["query", "download"]
    sql: Sql | None = None
    table: Name | None = None
    version: Version | None = None
    as_of: Moment | None = None
    tag: Name | None = None
    limit: Limit | None = None
    format: Literal["csv", "tsv", "parquet", "json", "arrow"] = "csv"


class Error(BaseModel):
    """The shape of every error."""

    error: str
    message: str
    position: dict[str, int | None] | None = None
    nearest: list[str] = []
    detail: dict[str, Any] | None = None
    request_id: str


class Whoami(BaseModel):
    """The caller."""

    name: str
    scopes: list[str]
    tables: list[str] | None
    auth: bool


class ColumnShown(BaseModel):
    """A column."""

    name: str
    type: str
    nullable: bool


class TableShown(BaseModel):
    """A table; the last fields are present in the response for one table only."""

    name: str
    status: str
    error: str | None
    version: int | None
    rows: int | None
    bytes: int | None
    blocks: int | None
    staleness_s: float | None
    columns: list[ColumnShown] | None = None
    time_column: str | None = None
    sort_by: list[str] | None = None
    tags: dict[str, int] | None = None


class TablesShown(BaseModel):
    """All tables that the caller may know."""

    tables: list[TableShown]


class JobShown(BaseModel):
    """A job."""

    id: str
    kind: str
    state: str
    created: int
    ended: int | None
    table: str | None
    sql: str | None
    format: str
    attempt: int
    progress: dict[str, int]
    error: dict[str, Any] | None
    written: dict[str, Any] | None
    result: dict[str, Any] | None


class JobsShown(BaseModel):
    """Jobs, the newest first."""

    jobs: list[JobShown]


def at_of(asked: Question) -> At | dict[str, At]:
    """The versions that a query reads. Raises Invalid."""
    if sum(one is not None for one in (asked.version, asked.as_of, asked.tag)) > 1:
        raise Invalid("a query takes only one of version, as_of and tag: remove the others")
    if isinstance(asked.version, dict):
        return {name: At(version=version) for name, version in asked.version.items()}
    if isinstance(asked.tag, dict):
        return {name: At(tag=tag) for name, tag in asked.tag.items()}
    return At(version=asked.version, as_of=asked.as_of, tag=asked.tag)


def parameters_of(asked: Question) -> list[object] | dict[str, object] | None:
    """The values of the parameters, with decimals. Raises Invalid with the parameter's name."""
    given = asked.parameters
    if isinstance(given, dict):
        return {name: _value(value, name) for name, value in given.items()}
    return (
        None
        if given is None
        else [_value(value, str(place)) for place, value in enumerate(given, start=1)]
    )


def _value(value: object, name: str) -> object:
    """The depth is bounded by the JSON parser."""
    if isinstance(value, list):
        return [_value(one, name) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"$decimal"}:
        return {key: _value(one, name) for key, one in value.items()}
    text = value["$decimal"]
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise Invalid(
            f'parameter {name} is not a decimal: give its digits as text, such as {{"$decimal": '
            '"12.50"}'
        )
    found = Decimal(text)
    plain = format(found, "f").lstrip("+-").replace(".", "").lstrip("0")
    if max(len(plain), -int(found.as_tuple().exponent)) > _DIGITS:
        raise Invalid(f"parameter {name} is {text[:60]}: a decimal has at most {_DIGITS} digits")
    return found
