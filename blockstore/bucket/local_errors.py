"""Errors of the system as typed errors: the one place where the local bucket classifies."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from blockstore.errors import (
    AccessDenied,
    BlockstoreError,
    Invalid,
    NoSpace,
    ObjectMissing,
    Unavailable,
)

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


def classify(error: OSError, path: str) -> BlockstoreError:
    """Return the typed error of a read of ``path`` that failed with ``error``."""
    reason = error.strerror or str(error)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return ObjectMissing(f"there is no object {path}")
    if error.errno in _DENIED:
        return AccessDenied(
            f"access to {path} is denied ({reason}): grant it to this user, or name another folder"
        )
    if error.errno == errno.ELOOP:
        return symlink_refused(path)
    if error.errno == errno.ENAMETOOLONG:
        return Invalid(f"the name {path} is too long for its file system: use shorter keys")
    return Unavailable(f"{path} could not be read or written ({reason}): try again")


def classify_write(error: OSError, path: str) -> BlockstoreError:
    """Return the typed error of a write to ``path`` that failed before anything was visible."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return NoSpace(f"no space is left to write {path} ({reason}): free some, then try again")
    if error.errno in {errno.EISDIR, errno.ENOTDIR, errno.EEXIST}:
        return Invalid(
            f"{path} cannot be an object ({reason}): it is a folder of objects, or is below an "
            "object"
        )
    if error.errno == errno.ENOENT:
        return Unavailable(
            f"the folder of {path} was removed again and again during the write: try again"
        )
    if error.errno == errno.EFBIG:
        return Invalid(
            f"{path} is larger than this process or file system allows ({reason}): raise the limit"
        )
    return classify(error, path)


def symlink_refused(path: str) -> Invalid:
    """Return the error for a symbolic link, which could point out of the bucket."""
    return Invalid(
        f"{path} is a symbolic link, which a bucket does not follow: put the files themselves there"
    )


@contextmanager
def classified_write(path: str) -> Iterator[None]:
    """Raise OSErrors of the block as typed errors of a write to ``path``."""
    try:
        yield
    except OSError as error:
        raise classify_write(error, path) from error
