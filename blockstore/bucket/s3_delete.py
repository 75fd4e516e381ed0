"""Deleting many S3 objects: up to a thousand a request, each key's own answer looked at.

Rules:
- A batch has no order; whoever needs one (R7) asks twice. One key alone goes as a plain DELETE.
- A key counts as deleted only if the answer names it. One that the answer does not mention is
  deleted by itself, so a server that does not know batches and says 200 all the same deletes
  nothing in silence.
- A store that refuses batches is asked key by key from then on.
- Of several failures the one that can be tried again is raised first: what is left then fails for
  good, by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from blockstore.bucket.keys import check_key
from blockstore.bucket.s3_client import S3Requests
from blockstore.bucket.s3_errors import FAILURES
from blockstore.errors import BlockstoreError, Invalid, ObjectMissing, Unavailable

BATCH = 1_000
"""The most keys that one DeleteObjects request may name."""

_STATUS = {
    "AccessDenied": 403,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "NoSuchKey": 404,
}
"""What a key's error code would have been as an answer of its own."""


class S3Deletes:
    """The deletes of one bucket."""

    def __init__(self, bucket: S3Requests) -> None:
        self._bucket = bucket
        self._batches = True

    def delete(self, keys: Iterable[str]) -> None:
        """Delete each key; raises the error of one that could not be, after all were tried."""
        remaining = iter(keys)
        while batch := [check_key(key) for key in islice(remaining, BATCH)]:
            for key in self._together(batch) if len(batch) > 1 and self._batches else batch:
                self._alone(key)

    def _together(self, keys: list[str]) -> list[str]:
        """One request for all; answers the keys that are still to be deleted by themselves."""
        wanted = [{"Key": key} for key in keys]
        try:
            answer = self._bucket.send("delete_objects", Delete={"Objects": wanted, "Quiet": False})
        except FAILURES as error:
            typed = self._bucket.error(error, "", write=True)
            if type(typed) not in {Invalid, ObjectMissing}:
                raise typed from error
            self._batches = False
            return keys
        errors = [self._error(one) for one in answer.get("Errors", ())]
        failed = [error for error in errors if not isinstance(error, ObjectMissing)]
        if failed:
            raise min(failed, key=lambda error: not isinstance(error, Unavailable))
        told = {one.get("Key") for part in ("Deleted", "Errors") for one in answer.get(part, ())}
        return [key for key in keys if key not in told]

    def _error(self, one: Any) -> BlockstoreError:
        code, key = one.get("Code", ""), one.get("Key", "")
        answer = {"Error": one, "ResponseMetadata": {"HTTPStatusCode": _STATUS.get(code, 400)}}
        return self._bucket.error(ClientError(answer, "DeleteObjects"), key, write=True)

    def _alone(self, key: str) -> None:
        try:
            self._bucket.send("delete_object", key)
        except FAILURES as error:
            typed = self._bucket.error(error, key, write=True)
            if not isinstance(typed, ObjectMissing):
                raise typed from error
