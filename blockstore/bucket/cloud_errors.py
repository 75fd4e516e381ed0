"""What obstore's errors mean in the error tree: the one place where the cloud bucket classifies.

obstore raises a few exception classes with a text; the first part of the text holds the status and
error code of the store's response. Rules:
- A conditional write's 412 is AlreadyExists or PreconditionFailed, as the caller decides.
- 409 is Contended (obstore calls it "already exists", which it is not) and 503 SlowDown is
  Throttled: not applied.
- A connection that never opened sent nothing: Unavailable, for writes too.
- Any other 5xx, a timeout, a reset or a text that is not understood is Unanswered for a write and
  Unavailable for a read: if a later release changes its texts, requests are repeated, not
  misjudged.
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


def status_and_code(error: BaseException) -> tuple[int, str]:
    """Return the HTTP status and error code of the response; (0, "") if the text has none."""
    text = _said(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return int(status[1]) if status else 0, code[1] if code else ""


def is_past_the_end(error: BaseException) -> bool:
    """Return whether a range was refused because it starts after the object's end."""
    return status_and_code(error)[0] == 416 or "Invalid range" in _said(error)


def is_complete_object(error: BaseException) -> bool:
    """Return whether a store without ranges responded with the complete object."""
    return "non-partial response" in _said(error)


def is_elsewhere(error: BaseException | None) -> bool:
    """Return whether the request was refused because the bucket is in another region."""
    if error is None:
        return False
    code = status_and_code(error)[1]
    return "redirect without LOCATION" in _said(error) or code == "AuthorizationHeaderMalformed"


def is_foreign_key(error: BaseException | None) -> bool:
    """Return whether a listing has a key that obstore refuses, such as ``a//b``."""
    return isinstance(error, obstore.InvalidPathError)


def classify(error: Exception, url: str, bucket: str, *, write: bool) -> BlockstoreError:
    """Return the typed error of a failed request for the object or bucket at ``url``."""
    status, code = status_and_code(error)
    text = _said(error)
    said = f"{status} {code}".strip() if status else text[:300]
    if any(hint in text for hint in _NO_CREDENTIALS):
        return AccessDenied(
            f"there are no usable credentials for {url} ({text[:300]}): set them in the "
            "environment, as the store's own tools read them"
        )
    if code in _NO_BUCKET:
        return NotFound(f"there is no bucket {bucket}: create it with the store's own tools")
    if isinstance(error, FileNotFoundError) or status == 404:
        return ObjectMissing(f"there is no object {url}")
    if status == 409 or isinstance(error, obstore.AlreadyExistsError):
        return Contended(
            f"{url} was written by another client at the same moment ({said}): send it again"
        )
    if isinstance(error, obstore.PreconditionError):
        return PreconditionFailed(f"{url} was not replaced: it has changed (412); read it again")
    if code in _THROTTLED or status == 429:
        return Throttled(
            f"the store limits the rate of requests ({said} for {url}): wait, then try again"
        )
    if code in _FULL or status == 507:
        return NoSpace(f"the store has no space for {url} ({said}): free some, or raise the quota")
    if status in {401, 403} or code in _DENIED:
        return AccessDenied(
            f"access to {url} is denied ({said}): check the credentials and their policy"
        )
    if is_elsewhere(error):
        return Invalid(f"the bucket {bucket} is in another region: set AWS_REGION to its region")
    if "kind: Connect" in str(error):
        return Unavailable(
            f"the store of {url} cannot be reached ({said}): check its endpoint and the network"
        )
    if (
        status == 501
        or (400 <= status < 500 and code != "RequestTimeout")
        or isinstance(error, _UNSUPPORTED)
    ):
        return Invalid(
            f"the store refused the request for {url} ({said}): it does not support the "
            "operation, or a limit was reached"
        )
    if write:
        return Unanswered(
            f"it is not known whether the write of {url} was applied ({said}): read it, or send "
            "it again"
        )
    return Unavailable(f"{url} could not be read ({said}): try again")


def _said(error: BaseException) -> str:
    """Return the text without its debug part, on one line."""
    return " ".join(str(error).partition("\n\nDebug source")[0].split())
