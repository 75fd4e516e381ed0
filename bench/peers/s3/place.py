"""Where a contestant's table is on the server, and how clients are pointed to the server."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["BUCKET", "bare_url", "copy", "copy_bare", "object_store", "prefix", "upload", "url"]

BUCKET = "bench"
COPIES = 8


def prefix(directory: Path) -> str:
    """The prefix of the table that a local bench keeps in ``directory``."""
    return "-".join(directory.parts[-3:])


def url(directory: Path) -> str:
    """The place of the folder's table."""
    return f"s3://{BUCKET}/{prefix(directory)}"


def bare_url(directory: Path) -> str:
    """The place of the table's data files without the table (``copy_bare``)."""
    return f"{url(directory)}/bare"


def object_store() -> dict[str, str]:
    """The settings of clients that are built on Rust's ``object_store``."""
    return {
        "aws_endpoint": os.environ["AWS_ENDPOINT_URL"],
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "aws_region": os.environ["AWS_REGION"],
        "aws_allow_http": "true",
        "aws_conditional_put": "etag",
    }


def copy_bare(directory: Path) -> None:
    """Copy the data files of a table of ours, so that others read the same files."""
    client, base = _client(), prefix(directory)
    chunks = sorted(key for key in _keys(client, base) if key.endswith(".parquet"))
    for number, key in enumerate(chunks):
        _copy(client, key, f"{base}/bare/part-{number:05d}.parquet")


def copy(directory: Path, to: Path) -> None:
    """Copy a whole table; every format here finds its files by their place within it."""
    client, base = _client(), prefix(directory)
    with ThreadPoolExecutor(COPIES) as pool:
        keys = _keys(client, base)
        list(pool.map(lambda key: _copy(client, key, prefix(to) + key[len(base) :]), keys))


def upload(folder: Path, directory: Path) -> None:
    """Copy a table of ours from a local folder."""
    client, base = _client(), prefix(directory)
    files = [path for path in folder.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(COPIES) as pool:
        list(
            pool.map(
                lambda path: client.upload_file(
                    str(path), BUCKET, f"{base}/{path.relative_to(folder).as_posix()}"
                ),
                files,
            )
        )


def _client() -> Any:
    import boto3

    return boto3.client("s3")


def _keys(client: Any, base: str) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{base}/")
    return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


def _copy(client: Any, key: str, to: str) -> None:
    client.copy_object(Bucket=BUCKET, Key=to, CopySource={"Bucket": BUCKET, "Key": key})
