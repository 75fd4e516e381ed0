"""The name of every object of a table, formatted and parsed only here (format, "on the bucket").

Names are relative to the table's prefix. Parsing is strict: a name that does not match is unknown;
the code that listed it ignores and reports it, and never guesses.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

INDEX = "index/"
CHECKPOINTS = "index/checkpoints/"
HINT = "index/hint.json"
LEAVES = "index/leaves/"
UNNAMED = "gc/leaves.json"
"""The leaves that no checkpoint named when a collector looked last."""
BOUNDARY = "gc/index.boundary"
META = "meta.json"
JOBS = "jobs/"
"""Reserved for the records of a gateway's jobs, in a lake or in a table; no reader of tables looks
there."""
JOBS_OPEN = f"{JOBS}open/"
JOBS_LISTED = f"{JOBS}of/"
"""The marks of jobs that may be open."""
INCOMING = "incoming/"
"""Where foreign engines put what they are about to commit; no reader of tables looks there."""
FILES = "files/"
"""What cells of columns of type ``file`` name."""
FILE_RECORD = "file.json"

RESERVED = frozenset({"files", "gc", "index", "jobs"})
"""Folders of a lake, or of a table, that are no tables."""
DELETION_MARK = "deletion-mark.json"
NO_COMPACT_MARK = "no-compact-mark.json"
SOURCES = "sources.parquet"
_SEGMENTS = "segments-"

SHIPPER_STATE = "blockstore.shipper.json"
"""In a folder of finished blocks on a device, not in a table: what was shipped, and where to."""
FOLDER_TABLE = "blockstore.table.json"
"""In such a folder: the definition under which its blocks are built."""

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ENTRY = re.compile(r"index/([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"index/checkpoints/([0-9]{20})\.parquet")
_LEAF = re.compile(r"index/leaves/([0-9a-f]{64})\.([0-9]{20})")
_FILE = re.compile(r"files/([0-7][0-9A-HJKMNP-TV-Z]{25})/([^/]+)")
_UNSAFE = re.compile(r"[^0-9A-Za-z._-]+")
_FILE_NAME = 100
_LAST_MS = 9_999_999_999_999
_PLACE = re.compile(r"jobs/of/[0-9a-f]{16}/([0-9]{13})-([0-7][0-9A-HJKMNP-TV-Z]{25})")
_CLAIM = re.compile(r"claims/([0-9]{6}|[1-9][0-9]{6,})\.json")
_CHUNK = re.compile(r"chunks/[0-9A-Za-z][0-9A-Za-z_-]{0,99}\.parquet")


def is_ulid(text: str) -> bool:
    """Return whether ``text`` is a ULID in canonical upper case."""
    return _ULID.fullmatch(text) is not None


def entry_key(entry: int) -> str:
    """``index/<20 digits>.json``."""
    return f"{INDEX}{entry:020d}.json"


def parse_entry(key: str) -> int | None:
    """The id of an index entry's key, or None for another key."""
    match = _ENTRY.fullmatch(key)
    return int(match[1]) if match else None


def checkpoint_key(version: int) -> str:
    """``index/checkpoints/<20 digits>.parquet``."""
    return f"{CHECKPOINTS}{version:020d}.parquet"


def parse_checkpoint(key: str) -> int | None:
    """The version of a checkpoint's key, or None for another key."""
    match = _CHECKPOINT.fullmatch(key)
    return int(match[1]) if match else None


def leaf_key(sha256: str, generation: int) -> str:
    """``index/leaves/<SHA-256>.<20 digits>``: a leaf by its content, and the version for whose
    checkpoint it was written."""
    return f"{LEAVES}{sha256}.{generation:020d}"


def parse_leaf(key: str) -> tuple[str, int] | None:
    """The SHA-256 and the generation of a leaf's key, or None for another key."""
    match = _LEAF.fullmatch(key)
    return (match[1], int(match[2])) if match else None


def chunk_path(number: int, token: str = "") -> str:
    """The path of a chunk inside its block: ``chunks/000001.parquet``, or with an attempt's token
    ``chunks/<token>-000001.parquet``, so that two attempts at one block never write the same
    object."""
    return f"chunks/{token}-{number:06d}.parquet" if token else f"chunks/{number:06d}.parquet"


def is_chunk_path(path: str) -> bool:
    """Return whether ``path`` is a chunk's path in a block; never absolute, never with ``..``."""
    return _CHUNK.fullmatch(path) is not None


def sources_path() -> str:
    """The path, inside a block, of the list of sources that is too long for meta.json."""
    return SOURCES


def segments_path(sha256: str) -> str:
    """The path, inside a block, of the hashes of its chunks' segments: ``segments-`` and the first
    16 digits of the object's own SHA-256, so that two attempts at one block never write other bytes
    under one name."""
    return f"{_SEGMENTS}{sha256[:16]}"


def object_key(ulid: str, path: str) -> str:
    """The key of an object of a block, from the path that ``files`` gives."""
    return f"{ulid}/{path}"


def meta_key(ulid: str) -> str:
    """The block's integrity marker."""
    return f"{ulid}/{META}"


def deletion_mark_key(ulid: str) -> str:
    """The mark that schedules the block's removal."""
    return f"{ulid}/{DELETION_MARK}"


def no_compact_mark_key(ulid: str) -> str:
    """The mark that keeps the compactor away from the block."""
    return f"{ulid}/{NO_COMPACT_MARK}"


def split_block_key(key: str) -> tuple[str, str] | None:
    """``(ulid, path inside the block)`` of a key in a block's directory, or None for another
    key."""
    head, slash, path = key.partition("/")
    return (head, path) if slash and path and is_ulid(head) else None


def file_key(file: str, path: str) -> str:
    """``files/<ULID>/<path>``: an object of a file that cells name."""
    return f"{FILES}{file}/{path}"


def file_object_name(name: str) -> str:
    """What a file's object is called, from the name that its owner gave it.

    Of the name only ASCII letters, digits, ``.``, ``_`` and ``-`` stay, at most 100 of them with
    the ending; it never begins with a dot, and is never one of the names of this format.
    """
    plain = _UNSAFE.sub("_", unicodedata.normalize("NFKD", name))
    if plain.startswith(".") or plain.lower() in ("", FILE_RECORD, DELETION_MARK):
        plain = f"_{plain}"
    if len(plain) <= _FILE_NAME:
        return plain
    _, dot, ending = plain.rpartition(".")
    ending = f".{ending}" if dot and len(ending) < _FILE_NAME // 4 else ""
    return plain[: _FILE_NAME - len(ending)] + ending


def split_file_key(key: str) -> tuple[str, str] | None:
    """``(id, path inside its folder)`` of a key below ``files/``, or None for another key."""
    match = _FILE.fullmatch(key)
    return (match[1], match[2]) if match else None


def job_prefix(job: str) -> str:
    """Everything of one job of a gateway."""
    return f"{JOBS}{job}/"


def job_open_key(job: str) -> str:
    """A mark that the job may be open: written before its request, deleted after its outcome."""
    return f"{JOBS_OPEN}{job}"


def job_listed_prefix(owner: str) -> str:
    """The places of an owner's jobs in the list of jobs, the newest first in the order of keys."""
    return f"{JOBS_LISTED}{hashlib.sha256(owner.encode()).hexdigest()[:16]}/"


def job_place(created_ms: int, job: str) -> str:
    """The last part of a job's place: later jobs sort first. Jobs of one millisecond sort by their
    ids. Times outside of the years 1970 to 2286 are those at the ends."""
    return f"{_LAST_MS - min(max(created_ms, 0), _LAST_MS):013d}-{job}"


def parse_job_place(key: str) -> tuple[int, str] | None:
    """``(time, job)`` of a key below ``jobs/of/``, or None for another key."""
    match = _PLACE.fullmatch(key)
    return (_LAST_MS - int(match[1]), match[2]) if match else None


def job_request_key(job: str) -> str:
    """The request: the last object that the requester writes, and never changed."""
    return f"{job_prefix(job)}request.json"


def job_input_key(job: str, ulid: str) -> str:
    """The uploaded file, under a ULID of the upload's attempt; earlier releases used 16 random
    digits."""
    return f"{job_prefix(job)}input-{ulid}"


def job_claim_key(job: str, attempt: int) -> str:
    """The lease of one attempt: ``claims/<6 digits or more>.json``, created if absent."""
    return f"{job_prefix(job)}claims/{attempt:06d}.json"


def parse_job_claim(path: str) -> int | None:
    """The attempt of a claim's path inside its job, or None for another path."""
    match = _CLAIM.fullmatch(path)
    return int(match[1]) if match else None


def job_cancel_key(job: str) -> str:
    """The request to cancel the job."""
    return f"{job_prefix(job)}cancel.json"


def job_outcome_key(job: str) -> str:
    """How the job ended: created if absent, so a job ends once."""
    return f"{job_prefix(job)}outcome.json"


def job_result_key(job: str, attempt: int) -> str:
    """The rows that an attempt wrote; the outcome names those that count."""
    return f"{job_prefix(job)}results/{attempt:06d}"


def split_job_key(key: str) -> tuple[str, str] | None:
    """``(job, path inside the job)`` of a key below ``jobs/``, or None for another key."""
    head, slash, path = key.removeprefix(JOBS).partition("/")
    return (head, path) if key.startswith(JOBS) and slash and path and is_ulid(head) else None
