"""URLs as Spark and Hadoop write them, in our spelling. Pure, but for the account that the
environment names.

- ``file:/x`` is ``file:///x``: Spark hands out folders like that.
- ``s3a://`` and ``s3n://`` are ``s3://``.
- ``abfs://``, ``abfss://``, ``wasb://`` and ``wasbs://`` are ``az://`` where they name the account
  that the environment names, or none; whether the connection is encrypted is the endpoint's to say.
- Any other text that begins with a scheme and one slash is no folder: a table would lie where
  nobody looks for it.
"""

from __future__ import annotations

import os
import re

from blockstore.errors import Invalid

# A scheme has two letters at least: C:/ is none.
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)(.*)", re.DOTALL)
_HADOOP_S3 = re.compile(r"s3[an]://", re.IGNORECASE)
_HADOOP_AZURE = re.compile(r"(?:abfss?|wasbs?)://([^/?]+)(.*)", re.IGNORECASE | re.DOTALL)
_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"


def in_our_words(url: str, schemes: tuple[str, ...], forms: str) -> str:
    """The URL in the spelling that ``open_bucket`` knows. Raises Invalid for a scheme with one
    slash, and for an account that is not the one whose key the environment holds; ``schemes`` are
    those with two slashes, ``forms`` all that there are."""
    single = _ONE_SLASH.fullmatch(url)
    if single is not None:
        scheme, rest = single[1], single[2]
        if scheme.lower() == "file":
            return f"file:///{rest}"
        meant = f"write {scheme}://{rest}" if scheme.lower() in schemes else f"use {forms}"
        raise Invalid(
            f"{url!r} has one slash after the scheme: {meant}, or, for a folder of that name, "
            f"./{url}"
        )
    if _HADOOP_S3.match(url):
        return "s3" + url[3:]
    azure = _HADOOP_AZURE.fullmatch(url)
    return url if azure is None else f"az://{_container(url, azure[1])}{azure[2]}"


def _container(url: str, place: str) -> str:
    """The container of ``container@account.host``."""
    container, at, host = place.partition("@")
    account = host.partition(".")[0]
    known = os.environ.get(_ACCOUNT, "")
    if at and account != known:
        raise Invalid(
            f"{url!r} names the account {account!r}, and {_ACCOUNT} is {known!r}: set it to "
            f"{account}, with the key that belongs "
            f"to it, or write az://{container}/prefix for the account that it names"
        )
    return container
