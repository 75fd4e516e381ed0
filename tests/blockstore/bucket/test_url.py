"""From a URL to a bucket."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from blockstore.bucket import open_bucket
from blockstore.bucket.local import LocalBucket
from blockstore.errors import Invalid, MissingExtra
from blockstore.world import World

WORLD = World.manual()


@pytest.mark.parametrize(
    "form",
    ["{0}/lake/t", "{0}/lake/t/", "{0}/lake//t/.", "file://{0}/lake/t", "FILE://{0}/lake/t/", "lake/t"],
)
def test_a_folder_by_whatever_form_has_one_url(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_bucket(form.format(tmp_path), WORLD).url == f"file://{tmp_path}/lake/t"


def test_the_canonical_url_opens_the_same_folder(tmp_path: Path) -> None:
    bucket = open_bucket(f"{tmp_path}/odd näme #1%20/t?durable=false", WORLD)
    bucket.put("a", b"x")
    again = open_bucket(bucket.url, WORLD)
    assert again.url == bucket.url
    assert again.get("a").data == b"x"
    assert (tmp_path / "odd näme #1%20" / "t" / "a").exists()


def test_a_folder_is_durable_unless_the_url_says_otherwise(tmp_path: Path) -> None:
    for query, durable in {"": True, "?durable=true": True, "?durable=false": False}.items():
        bucket = open_bucket(f"{tmp_path}/t{query}", WORLD)
        assert isinstance(bucket, LocalBucket)
        assert bucket.url.endswith("?durable=false") is not durable
        assert open_bucket(f"file://{tmp_path}/t{query}", WORLD).url == bucket.url


def test_memory_is_shared_by_name_and_divided_by_prefix() -> None:
    open_bucket("memory://url-test/lake/flights", WORLD).put("a", b"x")
    lake = open_bucket("memory://url-test/lake/", WORLD)
    assert lake.url == "memory://url-test/lake"
    assert [info.key for info in lake.list()] == ["flights/a"]
    assert open_bucket("memory://url-test", WORLD).get("lake/flights/a").data == b"x"


def test_s3_is_canonical_and_opened_without_a_request() -> None:
    assert open_bucket("s3://bucket/lake/flights/", World.real()).url == "s3://bucket/lake/flights"
    assert open_bucket("S3://bucket", WORLD).url == "s3://bucket"


@pytest.mark.parametrize("url", ["abfs://bucket/x", "http://host/x", "s3a://bucket/x"])
def test_an_unknown_scheme_names_the_known_ones(url: str) -> None:
    with pytest.raises(Invalid, match=r"file:///dir, memory://name, s3://bucket/prefix, gs://"):
        open_bucket(url, WORLD)


@pytest.mark.parametrize(
    "url",
    [
        "", "?durable=false", "file://host/dir", "s3://", "s3:///prefix", "memory://", "s3://b/p?durable=false",
        "s3://b?client=curl", "gs://b?client=boto3", "gs://", "az:///p", "/tmp/x?durable=no", "/tmp/x?sync=false", "s3://b/a//b", "s3://b/../c", "memory://../x", "/",
    ],
)  # fmt: skip
def test_a_url_that_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        open_bucket(url, WORLD)


def test_s3_without_boto3_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "boto3" else found(name, *rest)
    )
    monkeypatch.delitem(sys.modules, "blockstore.bucket.s3", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'blocklake\[s3\]'"):
        open_bucket("s3://bucket", WORLD)


@pytest.mark.parametrize("url", ["gs://bucket", "az://container/lake", "s3://bucket/lake?client=obstore"])
def test_the_clouds_without_obstore_say_what_to_install(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "obstore" else found(name, *rest)
    )
    monkeypatch.delitem(sys.modules, "blockstore.bucket.cloud", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'blocklake\[cloud\]'"):
        open_bucket(url, WORLD)


def test_the_client_of_an_s3_url_is_boto3_unless_it_says_obstore() -> None:
    assert open_bucket("s3://bucket/lake?client=boto3", WORLD).url == "s3://bucket/lake"
    assert open_bucket("s3://bucket/lake?client=obstore", WORLD).url == "s3://bucket/lake?client=obstore"


def test_a_path_object_is_a_url_and_what_is_no_text_is_refused(tmp_path: Path) -> None:
    assert open_bucket(tmp_path / "table", World.manual()).url == f"file://{tmp_path}/table"
    for wrong in (None, 5, b"lake"):
        with pytest.raises(Invalid, match="expected text"):
            open_bucket(wrong, World.manual())  # type: ignore[arg-type]


def test_a_file_or_the_root_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Invalid, match="is a file, expected a folder"):
        open_bucket(f"{tmp_path}/file", World.manual())
    with pytest.raises(Invalid, match="is the root of the file system"):
        open_bucket("/", World.manual())
