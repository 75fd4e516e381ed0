"""An index entry: one committed operation, as a value and as bytes.

Owns the JSON of ``index/<id>.json`` (format, "index entry"). Rules:
- Decoding is strict and total: whatever the bytes, the result is an ``Entry``, ``Corrupt`` or
  ``NewerFormat``, and the error names the entry. An entry whose ``id`` differs from its name is
  Corrupt: stepping over it, or back to the version before, would fork history.
- An operation that this release does not know is kept as text: its ``remove``, ``add``, ``account``
  and ``except`` say all that a reader needs. A feature that it must know is in ``requires``, and is
  refused by name.
- An added block's sources are left out where the state knows them: its own ULID alone, or the union
  over its ``parents``, all removed by this entry, with itself where it is ``own``. More than 1,000
  others are in the block's own list file, and the entry holds its path, count and hash.
- ``touched`` names the rows that an entry has changed (``touches.py``): 8 bytes each, sorted.
- Fields at their defaults are left out; a reader takes a missing field at its default.
- A committer seals what it writes (``format/document.py``), so a damaged entry is Corrupt, and
  neither another state nor void.
- ``Entry.sha256`` is not a field of the JSON: it is the hash of the bytes from which the entry was
  decoded (``chain.py``).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import NoneType

import numpy as np
import orjson

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, refuse_newer, refuse_unknown
from blockstore.index.added import AddedBlock, ulids
from blockstore.index.chain import REQUIRED, Link, next_link
from blockstore.index.checkpoint_name import NamedCheckpoint, read_name
from blockstore.names import entry_key, is_ulid

_SHA256 = re.compile(r"[0-9a-f]{64}")

Epoch = tuple[int, str]
"""A role's number and the commit id of its claim."""

_APPENDED = frozenset(
    {
        "format",
        "id",
        "prev",
        "commit",
        "time",
        "operation",
        "add",
        "first_row_id",
        "checkpoint",
        "by",
        "sent",
    }
)
"""The fields of an entry that adds blocks and does nothing else."""


class Operation(StrEnum):
    """What an entry did. An entry may name another one, written by a later release."""

    CREATE = "create"
    ALTER = "alter"
    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    REWRITE = "rewrite"
    REVERT = "revert"
    RESTORE = "restore"
    UPSERT = "upsert"
    UPDATE = "update"
    MERGE = "merge"
    COMPACT = "compact"
    DISCOVER = "discover"
    EXPIRE = "expire"
    DROP = "drop"
    UNDROP = "undrop"
    CLEAR = "clear"
    TAG = "tag"
    UNTAG = "untag"
    EPOCH = "epoch"
    HORIZON = "horizon"
    REBUILD = "rebuild"
    TREE = "tree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the index; the fields are those of the format, ``except`` being ``excepts``."""

    id: int
    commit: str
    time: int
    operation: str
    add: tuple[AddedBlock, ...] = ()
    remove: tuple[str, ...] = ()
    excepts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    account: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    job: Job | None = None
    first_row_id: int | None = None
    role: str | None = None
    epochs: Mapping[str, Epoch] = field(default_factory=dict)
    checkpoint: NamedCheckpoint | None = None
    read_version: int | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    table: Definition | None = None
    touched: bytes | None = None
    """The rows that it has changed, as ``touches.py`` packs them; None where it does not say."""
    tags: Mapping[str, int | None] = field(default_factory=dict)
    """Tag names and the versions that they pin from now on; None takes the tag away."""
    horizon: str | None = None
    floor: str | None = None
    requires: tuple[str, ...] = ()
    by: str = ""
    prev: Link | None = None
    """The entry below, as this one's writer knew it;

    None in entry 1 and in entries of releases before 0.2.
    """
    sent: int = 0
    """How often it was sent before, without a response: no bytes are ever sent twice, so an entry
    is of one history."""
    sha256: str = field(default="", compare=False)
    """Of the bytes from which this was decoded."""

    @property
    def rows(self) -> int:
        """Rows of the blocks that take their row ids from this entry."""
        return sum(block.meta.rows for block in self.add if block.first_row_id is None)

    def follows(self, last: Link) -> bool:
        """Whether this entry was written on top of ``last``; else it is void."""
        return not last.chain if self.prev is None else self.prev == last

    def link_after(self, last: Link) -> Link:
        """The link of this entry, void or not, when its predecessor's is ``last``."""
        chained = self.prev is not None or REQUIRED in self.requires
        return next_link(last, commit=self.commit, sha256=self.sha256, chained=chained)


def encode_entry(entry: Entry) -> bytes:
    """The bytes of the entry: compact JSON in the order of the format's fields."""
    job = entry.job
    value: dict[str, object] = {
        "format": FORMAT_VERSION,
        "id": entry.id,
        "prev": None if entry.prev is None else link_to_json(entry.prev),
        "commit": entry.commit,
        "time": entry.time,
        "operation": str(entry.operation),
        "role": entry.role,
        "epochs": {role: list(epoch) for role, epoch in entry.epochs.items()},
        "checkpoint": None if entry.checkpoint is None else entry.checkpoint.to_json(),
        "read_version": entry.read_version,
        "add": [block.to_json() for block in entry.add],
        "remove": list(entry.remove),
        "except": {ulid: list(sources) for ulid, sources in entry.excepts.items()},
        "account": list(entry.account),
        "keep": list(entry.keep),
        "job": None if job is None else {"app": job.app, "batch": job.batch},
        "first_row_id": entry.first_row_id,
        "parameters": dict(entry.parameters),
        "message": entry.message,
        "table": None if entry.table is None else entry.table.to_json(),
        "touched": None if entry.touched is None else base64.b64encode(entry.touched).decode(),
        "tags": dict(entry.tags),
        "horizon": entry.horizon,
        "floor": entry.floor,
        "requires": list(entry.requires),
        "by": entry.by,
        "sent": entry.sent or None,
    }
    return orjson.dumps(
        {
            name: item
            for name, item in value.items()
            if item not in (None, "", [], {}) or (name == "touched" and item == "")
        }
    )


def decode_entry(data: bytes, *, entry_id: int, url: str = "") -> Entry:
    """The entry that ``index/<id>.json`` holds. Raises Corrupt or NewerFormat, naming the entry,
    and its table where the ``url`` is given."""
    name, fields, requires = _fields(data, entry_id, url)
    entry = Entry(
        id=entry_id,
        commit=fields.ulid("commit"),
        time=fields.integer("time", high=2**48 - 1),
        operation=fields.text("operation"),
        add=tuple(
            AddedBlock.from_json(block, f"{name}: add[{place}]")
            for place, block in enumerate(fields.items("add", ()))
        ),
        first_row_id=fields.integer("first_row_id") if fields.has("first_row_id") else None,
        checkpoint=read_name(fields, "checkpoint"),
        by=fields.text("by", ""),
        prev=link_of(fields, "prev"),
        sent=fields.integer("sent", 0),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    # Most entries are appends, and every reader decodes them all: what they lack is not looked for
    # field by field.
    return entry if fields.has_only(_APPENDED) else _with_the_rest(entry, name, fields, requires)


def _with_the_rest(entry: Entry, name: str, fields: Document, requires: tuple[str, ...]) -> Entry:
    return replace(
        entry,
        remove=ulids(fields, "remove"),
        excepts=_excepts(fields),
        account=ulids(fields, "account"),
        keep=ulids(fields, "keep"),
        job=_job(fields),
        role=fields.text("role") if fields.has("role") else None,
        epochs=_epochs(fields),
        read_version=fields.integer("read_version") if fields.has("read_version") else None,
        parameters=_parameters(fields),
        message=fields.text("message", ""),
        table=_table(fields, name),
        touched=_touched(fields),
        tags=_tags(fields, entry.id),
        horizon=fields.ulid("horizon") if fields.has("horizon") else None,
        floor=fields.ulid("floor") if fields.has("floor") else None,
        requires=requires,
    )


def decode_removed(data: bytes, *, entry_id: int, url: str = "") -> tuple[str, ...]:
    """The ``remove`` of an entry that a reader has followed before, and nothing else of it."""
    return ulids(_fields(data, entry_id, url)[1], "remove")


def _fields(data: bytes, entry_id: int, url: str) -> tuple[str, Document, tuple[str, ...]]:
    """What errors call the entry, its fields, and the features that it requires: all of them
    known."""
    name = f"index entry {entry_id} ({entry_key(entry_id)})" + (f" of {url}" if url else "")
    fields = parse(data, name)
    refuse_newer(fields.integer("format", low=1), name)
    requires = fields.texts("requires", ())
    refuse_unknown(requires, name)
    found = fields.integer("id")
    if found != entry_id:
        raise Corrupt(
            f"{name} has the id {found}, expected {entry_id}: it was copied or renamed, "
            "restore it from a copy"
        )
    return name, fields, requires


def link_of(fields: Document, name: str) -> Link | None:
    """A link in an object, or None if it has none. Raises Corrupt."""
    if not fields.has(name):
        return None
    link = fields.document(name)
    hashes = (link.text("sha256", ""), link.text("chain", ""))
    if any(hashes) and not all(map(_SHA256.fullmatch, hashes)):
        fields.fail(name, "a commit id, and two SHA-256 of 64 hexadecimal digits or none")
    return Link(link.ulid("commit"), *hashes)


def link_to_json(link: Link) -> dict[str, str]:
    """The JSON of a link."""
    hashes = {"sha256": link.sha256, "chain": link.chain} if link.chain else {}
    return {"commit": link.commit, **hashes}


def _job(fields: Document) -> Job | None:
    if not fields.has("job"):
        return None
    job = fields.document("job")
    try:
        return Job(app=job.text("app"), batch=job.integer("batch"))
    except Invalid as error:
        raise Corrupt(f"{fields.subject}: {error}") from None


def _table(fields: Document, name: str) -> Definition | None:
    value = fields.raw("table")
    if value is None:
        return None
    if not isinstance(value, dict):
        fields.fail("table", "an object")
    return Definition.from_json(value, f"{name}: the table's definition")


def _touched(fields: Document) -> bytes | None:
    if not fields.has("touched"):
        return None
    rows = fields.base64("touched")
    hashes = np.frombuffer(rows[: len(rows) // 8 * 8], dtype="<u8")
    if len(rows) % 8 or (hashes[:-1] >= hashes[1:]).any():
        fields.fail("touched", "sorted rows of 8 bytes each, none twice")
    return rows


def _parameters(fields: Document) -> Mapping[str, object]:
    value = fields.raw("parameters")
    if not isinstance(value, (dict, NoneType)):
        fields.fail("parameters", "an object")
    return value or {}


def _excepts(fields: Document) -> dict[str, tuple[str, ...]]:
    if not fields.has("except"):
        return {}
    listed = fields.document("except")
    found = {}
    for ulid in listed.names():
        found[ulid] = ulids(listed, ulid)
        if not is_ulid(ulid) or not found[ulid]:
            listed.fail(ulid, "under a block's ULID, at least one source")
    return found


def epoch_of(epochs: Document, role: str) -> Epoch:
    """The epoch of a role in an object from roles to [number, commit id]. Raises Corrupt."""
    value = epochs.raw(role)
    if not (role and isinstance(value, list) and len(value) == 2):
        epochs.fail(role, "[number, commit id]")
    number, commit = value
    if type(number) is not int or number < 1 or not isinstance(commit, str) or not is_ulid(commit):
        epochs.fail(role, "[number, commit id]")
    return number, commit


def _epochs(fields: Document) -> dict[str, Epoch]:
    if not fields.has("epochs"):
        return {}
    listed = fields.document("epochs")
    return {role: epoch_of(listed, role) for role in listed.names()}


def _tags(fields: Document, entry_id: int) -> dict[str, int | None]:
    if not fields.has("tags"):
        return {}
    listed = fields.document("tags")
    return {
        tag: listed.integer(tag, low=1, high=entry_id - 1) if listed.has(tag) else None
        for tag in listed.names()
    }
