"""S3's responses as typed errors: the one place where the S3 bucket classifies.

Rules:
- A conditional write's 412 is AlreadyExists or PreconditionFailed, as the caller decides. So is a
  404 for If-Match.
- 409 is Contended and 503 SlowDown is Throttled: the request was not applied.
- Any other 5xx, a timeout or a reset after sending is Unanswered for a write (some stores respond
  with 500 to a lost race) and Unavailable for a read.
- A connection that never opened sent nothing: Unavailable, for writes too.
"""

from __future__ import annotations

from typing import Any

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Contended,
    Corrupt,
    Invalid,
    NoSpace,
    NotFound,
    ObjectMissing,
    PreconditionFailed,
    Throttled,
    Unanswered,
    Unavailable,
)

NO_SUCH_UPLOAD = "NoSuchUpload"

_THROTTLED = {
    "SlowDown",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "429",
}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"}
_DENIED = {
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
}
_NEVER_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
)

FAILURES = (boto.ClientError, boto.BotoCoreError, ResponseParserError, OSError)
"""What a request, or reading its body, may raise."""


def status_and_code(error: BaseException) -> tuple[int, str]:
    """Return the HTTP status and S3 error code of a response; (0, "") where there was none."""
    if not isinstance(error, boto.ClientError):
        return 0, ""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return int(status), str(error.response.get("Error", {}).get("Code", ""))


def classify(error: Exception, url: str, bucket: str, *, write: bool) -> BlockstoreError:
    """Return the typed error of a failed request for the object or bucket at ``url``."""
    if not isinstance(error, boto.ClientError):
        return _without_response(error, url, write=write)
    status, code = status_and_code(error)
    said = f"{status} {code}".strip()
    detail = _detail(error)
    if code == "NoSuchBucket":
        return NotFound(
            f"there is no S3 bucket {bucket}: create it, for example with 'aws s3 mb s3://{bucket}'"
        )
    if status == 412:
        return PreconditionFailed(f"{url} was not replaced: it has changed (412); read it again")
    if status == 404:
        return ObjectMissing(f"there is no object {url}")
    if status == 409:
        return Contended(
            f"{url} was written by another client at the same moment ({said}): send it again"
        )
    if code in _THROTTLED or status == 429:
        return Throttled(
            f"the store limits the rate of requests ({said} for {url}): wait, then try again"
        )
    if code in _FULL or status == 507:
        return NoSpace(f"the store has no space for {url} ({said}): free some, or raise the quota")
    if status in {401, 403} or code in _DENIED:
        return AccessDenied(
            f"access to {url} is denied ({said}{detail}): check the credentials and their policy"
        )
    if status in {301, 307, 308} or code == "AuthorizationHeaderMalformed":
        return Invalid(
            f"the S3 bucket {bucket} is in another region ({said}{detail}): set AWS_REGION to its "
            "region"
        )
    if code == "RequestTimeout" or status in {500, 502, 503, 504} or status >= 520:
        return _lost(said, url, write=write)
    return Invalid(
        f"the store refused the request for {url} ({said}{detail}): it does not support the "
        "operation, or a limit was reached"
    )


def _without_response(error: Exception, url: str, *, write: bool) -> BlockstoreError:
    if isinstance(error, _NO_CREDENTIALS):
        return AccessDenied(
            f"there are no usable S3 credentials for {url} ({error}): set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or a profile"
        )
    if isinstance(error, _NEVER_SENT):
        return Unavailable(
            f"the store of {url} cannot be reached ({error}): check AWS_ENDPOINT_URL and the "
            "network"
        )
    if isinstance(
        error, (boto.ParamValidationError, boto.InvalidRegionError, boto.ProfileNotFound)
    ):
        return Invalid(
            f"the request for {url} cannot be made ({error}): correct the URL or the AWS settings"
        )
    if isinstance(error, ResponseParserError):
        return Corrupt(
            f"the response for {url} is not S3's ({error}): check that AWS_ENDPOINT_URL names an "
            "S3 store"
        )
    return _lost(str(error), url, write=write)


def _lost(said: str, url: str, *, write: bool) -> BlockstoreError:
    if write:
        return Unanswered(
            f"it is not known whether the write of {url} was applied ({said}): read it, or send "
            "it again"
        )
    return Unavailable(f"{url} could not be read ({said}): try again")


def _detail(error: Any) -> str:
    message = error.response.get("Error", {}).get("Message", "")
    return f": {message}" if message else ""
