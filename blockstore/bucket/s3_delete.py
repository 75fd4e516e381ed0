"""Deleting many S3 objects: up to a thousand in one request, with a result for each key.

Rules:
- A batch has no order; a caller that needs one (R7) calls twice. A single key is a plain DELETE.
- A key counts as deleted only if the response names it. Any other is deleted alone, so that a key
  is not lost on a server that does not know batches and still responds 200.
- A store that refuses batches gets one DELETE for each key from then on.
- Of several failures, one that can be retried is raised first; a retry then raises the permanent
  ones, by name.
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
"""The HTTP status of a key's error code, if the key had been deleted alone."""


class S3Deletes:
    """The deletes of one bucket."""

    def __init__(self, bucket: S3Requests) -> None:
        self._bucket = bucket
        self._batches = True

    def delete(self, keys: Iterable[str]) -> None:
        """Delete each key; after trying all, raise the error of one that failed."""
        remaining = iter(keys)
        while batch := [check_key(key) for key in islice(remaining, BATCH)]:
            for key in self._together(batch) if len(batch) > 1 and self._batches else batch:
                self._alone(key)

    def _together(self, keys: list[str]) -> list[str]:
        """Delete by one request; return the keys that are still to be deleted alone."""
        wanted = [{"Key": key} for key in keys]
        try:
            response = self._bucket.send(
                "delete_objects", Delete={"Objects": wanted, "Quiet": False}
            )
        except FAILURES as error:
            typed = self._bucket.error(error, "", write=True)
            if type(typed) not in {Invalid, ObjectMissing}:
                raise typed from error
            self._batches = False
            return keys
        errors = [self._error(one) for one in response.get("Errors", ())]
        failed = [error for error in errors if not isinstance(error, ObjectMissing)]
        if failed:
            raise min(failed, key=lambda error: not isinstance(error, Unavailable))
        named = {one.get("Key") for part in ("Deleted", "Errors") for one in response.get(part, ())}
        return [key for key in keys if key not in named]

    def _error(self, one: Any) -> BlockstoreError:
        code, key = one.get("Code", ""), one.get("Key", "")
        response = {"Error": one, "ResponseMetadata": {"HTTPStatusCode": _STATUS.get(code, 400)}}
        return self._bucket.error(ClientError(response, "DeleteObjects"), key, write=True)

    def _alone(self, key: str) -> None:
        try:
            self._bucket.send("delete_object", key)
        except FAILURES as error:
            typed = self._bucket.error(error, key, write=True)
            if not isinstance(typed, ObjectMissing):
                raise typed from error
