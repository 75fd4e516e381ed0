"""The bodies of requests and responses, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from blockstore.errors import Invalid
from blockstore.reader.forms.parameters import Parameters, from_json
from blockstore.reader.tables import At

Version = Annotated[StrictInt, Field(ge=1, le=2**63 - 1)]
Moment = Annotated[StrictInt, Field(ge=0, le=2**52)] | Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(max_length=1_000)]
Limit = Annotated[StrictInt, Field(ge=0, le=2**62)]
Sql = Annotated[str, Field(min_length=1, max_length=200_000)]


class _Body(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


class Timed(_Body):
    """SQL, and the versions that it reads."""

    sql: Sql
    version: Version | dict[Name, Version] | None = None
    as_of: Moment | None = None
    tag: Name | dict[Name, Name] | None = None
    parameters: list[Any] | dict[str, Any] | None = None


class ExplainBody(Timed):
    """A query that is explained, as that of ``/v1/query``."""


class Question(Timed):
    """A query. At most one of ``version``, ``as_of`` and ``tag``; a version or a tag may be given
    per table. A parameter ``{"$decimal": "12.50"}`` is a decimal with these digits; a number with a
    fraction is a float. Likewise ``$date``, ``$time``, ``$timestamp``, ``$duration``, ``$bytes``
    and ``$float``."""

    limit: Limit | None = None
    row_ids: bool = False
    """Begin each row with its ``_row_id`` and ``_version``, with a key with ``_version``."""
    min_version: dict[Name, Version] | None = None
    """The version of each table that must be among those that are read, at least."""


class JobBody(_Body):
    """A query or a download of one table, written to a file."""

    kind: Literal["query", "download"]
    sql: Sql | None = None
    table: Name | None = None
    version: Version | None = None
    as_of: Moment | None = None
    tag: Name | None = None
    limit: Limit | None = None
    format: Literal["csv", "tsv", "parquet", "json", "arrow"] = "csv"
    row_ids: bool = False
    """Begin each row with its ``_row_id`` and ``_version``, with a key with ``_version``."""


class RowsBody(_Body):
    """Complete rows. One with a ``_row_id`` replaces that row, with ``_version`` only if it still
    has that version; one without is new. With a key, one with a ``_version`` replaces the row of
    its key, and ``on_conflict`` says what one without does where the key exists. ``labels`` are
    those of new rows, and of rows that keys name; a row may also name them as columns."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1)]
    on_conflict: Literal["fail", "replace"] = "fail"
    labels: dict[Name, Name] | None = None
    message: Annotated[str, Field(max_length=1_000)] = ""


class CellsBody(_Body):
    """Some cells of rows: each names its ``_row_id`` or its key, the cells to change, and perhaps
    the ``_version`` that was read. In the same version ``new`` rows are added, and rows are
    deleted, which ``delete`` names by ``_row_id`` or key, and perhaps ``_version``. ``labels`` are
    those of rows that keys name, and of new rows."""

    rows: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    delete: list[dict[str, Any]] = []
    labels: dict[Name, Name] | None = None
    message: Annotated[str, Field(max_length=1_000)] = ""


class NamedBody(_Body):
    """Rows by their ``_row_id``, or by the columns of their key, and perhaps the ``_version`` that
    was read. ``labels`` are those of rows that keys name."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1)]
    labels: dict[Name, Name] | None = None
    message: Annotated[str, Field(max_length=1_000)] = ""


class VersionsBody(_Body):
    """Versions of rows: each row by its ``_row_id``, or by the columns of its key, with the
    ``_version``. ``labels`` are those of rows that keys name."""

    rows: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1_000)]
    labels: dict[Name, Name] | None = None


class StatementBody(_Body):
    """One statement that changes rows, or several from BEGIN to COMMIT, with the values of their
    parameters ``$1`` or ``$name``; or one that creates, alters or drops a table."""

    sql: Sql
    parameters: list[Any] | dict[str, Any] | None = None
    message: Annotated[str, Field(max_length=1_000)] = ""


class ColumnBody(_Body):
    """A column of a table."""

    name: Name
    type: Name
    nullable: bool = True
    max_length: Annotated[StrictInt, Field(ge=1)] | None = None
    pattern: Name | None = None
    default: Any = None
    check: Annotated[str, Field(max_length=10_000)] | None = None
    description: Annotated[str, Field(max_length=10_000)] | None = None


class TableBody(_Body):
    """A new table. ``columns`` are a text, ``name:type,…``, or one object each. In a ``typed``
    table ``integer`` has 64 bits, ``timestamp`` is in UTC, and a ``string`` has at most 1,000
    characters unless its ``max_length`` is another, or null for none."""

    name: Name
    columns: Annotated[str, Field(max_length=100_000)] | list[ColumnBody]
    typed: bool = False
    time_column: Name | None = None
    sort_by: list[Name] = []
    row_ids: bool = False
    key: list[Name] = []
    labels: dict[Name, Name] = {}
    properties: dict[Name, str | int] = {}


class AlterBody(_Body):
    """Changes of a table: columns to add, widen, rename, drop and put in order; rules of columns,
    null for one that is taken away; properties to set."""

    add: Annotated[str, Field(max_length=100_000)] | list[ColumnBody] | None = None
    widen: dict[Name, Name] | None = None
    rename: dict[Name, Name] | None = None
    drop: list[Name] = []
    reorder: list[Name] = []
    columns: dict[Name, dict[str, Any]] | None = None
    properties: dict[Name, str | int] | None = None
    message: Annotated[str, Field(max_length=1_000)] = ""


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
    restricted: list[str]
    """The tables of which it sees some rows and columns only, by name or by pattern."""
    auth: bool


class ColumnShown(BaseModel):
    """A column, with its rules; one that it does not have is null."""

    name: str
    type: str
    nullable: bool
    kind: str | None = None
    """``entity``, ``link`` or ``file``."""
    max_length: int | None = None
    pattern: str | None = None
    default: Any = None
    check: str | None = None
    description: str | None = None


class FileShown(BaseModel):
    """The handle of a file: the value of a cell of a column of type ``file``."""

    id: str
    name: str
    content_type: str
    bytes: int
    sha256: str


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
    row_ids: bool | None = None
    key: list[str] | None = None
    labels: dict[str, str | None] | None = None
    """The labels that its rows have, which queries read as columns of text, with the table's own
    value of each."""
    tags: dict[str, int] | None = None
    restricted: bool = False
    """Whether the caller sees some rows and columns only, and nothing of its blocks and
    history."""


class TablesShown(BaseModel):
    """All tables that the caller may know."""

    tables: list[TableShown]


class ValueCount(BaseModel):
    """A value of a label."""

    value: str
    rows: int


class ColumnStatistics(BaseModel):
    """What is known of a column; null is unknown, or that there is no value."""

    name: str
    min: str | None = None
    """No value is below. Texts are cut to 64 characters."""
    max: str | None = None
    nulls: int | None = None
    nans: int | None = None
    bins: list[int] = []
    """About how many values are in each of so many equal parts between ``min`` and ``max``."""
    values: list[ValueCount] | None = None
    """Of a label: its values with their rows, the most frequent first."""


class StatisticsShown(BaseModel):
    """What is known of a table's columns without reading a row."""

    table: str
    version: int | None
    rows: int | None
    """The stored rows; null for a table of too many blocks, whose statistics are not added up."""
    current: bool
    """Whether the stored rows are the current rows, none of them hidden by a newer version."""
    columns: list[ColumnStatistics]


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
    next: str | None
    """``before`` of the page after this one; null if these are the last."""


class BlocksExplained(BaseModel):
    """Blocks as columns, each with a value for every block; times are milliseconds. ``stream`` is
    the position of the block's labels in ``streams``."""

    ulid: list[str]
    level: list[int]
    min: list[int]
    max: list[int]
    rows: list[int]
    bytes: list[int]
    stream: list[int]
    streams: list[dict[str, str]]
    chunks_read: list[int]
    bytes_read: list[int]
    verdict: list[str]
    """``read``, or what leaves the block out: ``time``, ``labels``, ``statistics`` of its columns,
    or ``hidden``, where no current row is in it."""


class TableExplained(BaseModel):
    """What a query does with a table that it names."""

    name: str
    version: int | None
    condition: list[str]
    """The columns whose values can leave something out."""
    key: list[str]
    """The columns that the rows of a block are sorted by."""
    verdicts: dict[str, int]
    """How many blocks there are of each verdict."""
    bytes: int
    """Of all blocks."""
    chunks_read: int
    bytes_read: int
    counted: bool
    """Whether the query is a count that is known without reading any block."""
    blocks: BlocksExplained
    """All blocks; of many the first 10,000, those that are read before others."""


class Explained(BaseModel):
    """What a query would read, for each name of a table in it."""

    tables: list[TableExplained]


class QueryShown(BaseModel):
    """A query that runs."""

    id: str
    by: str
    """The name of its token or person."""
    own: bool
    """Whether it is the caller's."""
    door: str
    """``http``, ``flight`` or ``postgres``."""
    sql: str
    began: int
    """Milliseconds since the epoch."""
    seconds: float
    rows: int
    bytes: int
    """What its client was sent so far."""
    state: str
    """``starting``, ``running`` or ``cancelled``: cancelled, but not ended yet."""


class QueriesShown(BaseModel):
    """The running queries that the caller may see, the oldest first."""

    queries: list[QueryShown]


def at_of(question: Timed) -> At | dict[str, At]:
    """The versions that a query reads. Raises Invalid."""
    if sum(one is not None for one in (question.version, question.as_of, question.tag)) > 1:
        raise Invalid("a query takes only one of version, as_of and tag: remove the others")
    if isinstance(question.version, dict):
        return {name: At(version=version) for name, version in question.version.items()}
    if isinstance(question.tag, dict):
        return {name: At(tag=tag) for name, tag in question.tag.items()}
    return At(version=question.version, as_of=question.as_of, tag=question.tag)


def parameters_of(question: Timed) -> Parameters:
    """The values of the parameters. Raises Invalid with the parameter's name."""
    return from_json(question.parameters)
