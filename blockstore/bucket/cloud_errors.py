"""What obstore's errors mean in the error tree: the one place where the cloud bucket classifies.

obstore answers with a few exception classes and a text; status and error code of the store's answer
stand in the text's first part. Rules:
- A conditional write's 412 is the caller's answer: AlreadyExists or PreconditionFailed.
- 409 is Contended (obstore calls it "already exists", which it is not) and 503 SlowDown is
  Throttled: not applied.
- A connection that never opened carried nothing: Unavailable, for writes too.
- Whatever is not understood, any other 5xx, a timeout or a reset, is Unanswered for a write and
  Unavailable for a read: a text that a later release words otherwise makes us ask again, never
  believe.
"""

from __future__ import annotations

import re

from obstore import exceptions as obstore

from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Contended,
    Invalid,
    NoSpace,
    NotFound,
    ObjectMissing,
    PreconditionFailed,
    Throttled,
    Unanswered,
    Unavailable,
)

FAILURES = (obstore.BaseError, OSError, ValueError)
"""What a call of obstore may raise."""

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_THROTTLED = {"SlowDown", "RequestLimitExceeded", "ServerBusy", "TooManyRequests"}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"}
_DENIED = {"ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_NO_CREDENTIALS = (
    "169.254.169.254",
    "token request",
    "metadata.google.internal",
    "Account must be specified",
)
_UNSUPPORTED = (
    obstore.NotSupportedError,
    obstore.InvalidPathError,
    obstore.UnknownConfigurationKeyError,
)


def answer_of(error: BaseException) -> tuple[int, str]:
    """The HTTP status and error code of the store's answer;

    (0, "") where none stands in the text.
    """
    text = _said(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return int(status[1]) if status else 0, code[1] if code else ""


def is_past_the_end(error: BaseException) -> bool:
    """Whether a range was refused because it starts after the object's end."""
    return answer_of(error)[0] == 416 or "Invalid range" in _said(error)


def is_whole_object(error: BaseException) -> bool:
    """Whether the store knows no ranges and answered with the whole object."""
    return "non-partial response" in _said(error)


def classify(error: Exception, url: str, bucket: str, *, write: bool) -> BlockstoreError:
    """The typed error of a request for the object or bucket at ``url`` that failed with
    ``error``."""
    status, code = answer_of(error)
    text = _said(error)
    said = f"{status} {code}".strip() if status else text[:300]
    if any(hint in text for hint in _NO_CREDENTIALS):
        return AccessDenied(
            f"There are no usable credentials for {url} ({text[:300]}): set them in the "
            "environment, as the store's own "
            "tools read them."
        )
    if code in _NO_BUCKET:
        return NotFound(f"There is no bucket {bucket}: create it with the store's own tools.")
    if isinstance(error, FileNotFoundError) or status == 404:
        return ObjectMissing(f"There is no object {url}.")
    if status == 409 or isinstance(error, obstore.AlreadyExistsError):
        return Contended(
            f"{url} was written by another at the same moment ({said}): send it again."
        )
    if isinstance(error, obstore.PreconditionError):
        return PreconditionFailed(
            f"{url} is not replaced: it is not what was expected (412); read it again."
        )
    if code in _THROTTLED or status == 429:
        return Throttled(
            f"The store asks for fewer requests ({said} for {url}): wait, then try again."
        )
    if code in _FULL or status == 507:
        return NoSpace(f"The store has no space for {url} ({said}): free some, or raise the quota.")
    if status in {401, 403} or code in _DENIED:
        return AccessDenied(
            f"Access to {url} is denied ({said}): check the credentials and their policy."
        )
    if "redirect without LOCATION" in text or code == "AuthorizationHeaderMalformed":
        return Invalid(f"The bucket {bucket} lies in another region: set AWS_REGION to its region.")
    if "kind: Connect" in str(error):
        return Unavailable(
            f"The store of {url} cannot be reached ({said}): check its endpoint and the network."
        )
    if (
        status == 501
        or (400 <= status < 500 and code != "RequestTimeout")
        or isinstance(error, _UNSUPPORTED)
    ):
        return Invalid(
            f"The store refuses the request for {url} ({said}): it lacks the operation, or a "
            "limit is hit."
        )
    if write:
        return Unanswered(
            f"Nobody knows yet whether the write of {url} was applied ({said}): read it, or send "
            "it again."
        )
    return Unavailable(f"{url} could not be read ({said}): try again.")


def _said(error: BaseException) -> str:
    """The text without its debug part, on one line."""
    return " ".join(str(error).partition("\n\nDebug source")[0].split())
