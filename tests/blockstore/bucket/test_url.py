"""From a URL to a bucket."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from blockstore.bucket import open_bucket
from blockstore.bucket.environment import check_environment
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part
from blockstore.errors import Invalid, MissingExtra
from blockstore.world import World

WORLD = World.manual()


@pytest.mark.parametrize(
    "form",
    [
        "{0}/lake/t",
        "{0}/lake/t/",
        "{0}/lake//t/.",
        "file://{0}/lake/t",
        "FILE://{0}/lake/t/",
        "file:{0}/lake/t",
        "FILE:{0}/lake/t",
        "lake/t",
    ],
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


@pytest.mark.parametrize("url", ["dbfs://bucket/x", "http://host/x", "hdfs://name/x"])
def test_an_unknown_scheme_names_the_known_ones(url: str) -> None:
    with pytest.raises(Invalid, match=r"file:///dir, memory://name, s3://bucket/prefix, gs://"):
        open_bucket(url, WORLD)


@pytest.mark.parametrize(
    "url",
    [
        "", "?durable=false", "file://host/dir", "s3://", "s3:///prefix", "memory://", "s3://b/p?durable=false",
        "s3://b?client=curl", "gs://b?client=boto3", "gs://", "az:///p", "/tmp/x?durable=no",
        "/tmp/x?sync=false", "s3://b/a//b", "s3://b/../c", "memory://../x", "/",
    ],
)  # fmt: skip
def test_a_url_that_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        open_bucket(url, WORLD)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket?client=boto3"])
def test_s3_without_its_clients_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in {"boto3", "obstore"} else found(name, *rest),
    )
    monkeypatch.delitem(sys.modules, "blockstore.bucket.s3_boto3", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'blocklake\[s3\]'"):
        open_bucket(url, WORLD)


@pytest.mark.parametrize(
    "url", ["gs://bucket", "az://container/lake", "s3://bucket/lake?client=obstore"]
)
def test_the_clouds_without_obstore_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "obstore" else found(name, *rest),
    )
    monkeypatch.delitem(sys.modules, "blockstore.bucket.cloud", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'blocklake\[cloud\]'"):
        open_bucket(url, WORLD)


@pytest.mark.parametrize("client", ["", "?client=boto3", "?client=obstore"])
def test_an_s3_url_keeps_the_client_that_it_names(client: str) -> None:
    url = f"s3://bucket/lake{client}"
    assert open_bucket(url, WORLD).url == url
    assert open_bucket(url, World.real()).url == url


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


@pytest.mark.parametrize("scheme", ["s3", "S3", "gs", "az", "memory"])
def test_a_scheme_with_one_slash_is_refused_with_the_right_spelling(scheme: str) -> None:
    with pytest.raises(Invalid, match=f"{scheme}://bucket/t"):
        open_bucket(f"{scheme}:/bucket/t", WORLD)


@pytest.mark.parametrize("url", ["dbfs:/lake/t", "hdfs:/lake/t", "abfss:/lake/t", "viewfs:/t"])
def test_an_unknown_scheme_with_one_slash_is_no_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        Invalid,
        match=rf"'{url}' has one slash .*: use a path, .* for a folder of that name, \./{url}",
    ):
        open_bucket(url, WORLD)
    assert open_bucket(f"./{url}", WORLD).url == f"file://{tmp_path}/{url.replace(':', '%3A')}"


@pytest.mark.parametrize("url", ["s3a://bucket/t", "s3n://bucket/t", "S3A://bucket/t"])
def test_the_connectors_of_spark_name_the_same_bucket(url: str) -> None:
    assert open_bucket(url, WORLD).url == "s3://bucket/t"


AZURE = [
    "abfss://box@account.dfs.core.windows.net/t",
    "wasbs://box@account.blob.core.windows.net/t",
    "abfs://box/t",
]


@pytest.mark.parametrize("url", AZURE)
def test_azure_by_the_names_of_its_connectors(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    assert open_bucket(url, WORLD).url == "az://box/t"


@pytest.mark.parametrize("named", ["other", None])
def test_another_account_than_the_environments_is_refused(
    named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    if named is not None:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", named)
    with pytest.raises(
        Invalid,
        match=r"names the account 'account', but AZURE_STORAGE_ACCOUNT_NAME is .* set it to "
        r"account",
    ):
        open_bucket(AZURE[0], WORLD)


def test_a_folder_that_looks_like_a_scheme_is_named_with_its_parent(tmp_path: Path) -> None:
    assert open_bucket(f"{tmp_path}/s3:/t", WORLD).url.startswith("file://")


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("client", ["boto3", "obstore"])
def test_an_endpoint_without_a_scheme_is_refused_by_name(
    variable: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "localhost:9000")
    with pytest.raises(Invalid, match=f"{variable} is 'localhost:9000', .*http://localhost:9000"):
        open_bucket(f"s3://bucket/t?client={client}", WORLD)
    monkeypatch.setenv(variable, "ftp://localhost:9000")
    with pytest.raises(Invalid, match="write http://localhost:9000 or https://localhost:9000"):
        open_bucket(f"s3://bucket/t?client={client}", WORLD)
    monkeypatch.setenv(variable, "http://localhost:9000")
    assert open_bucket("s3://bucket/t", World.real()).url == "s3://bucket/t"


@pytest.mark.parametrize("address", ["http://", "http://[::1", "https://a:99999", "http://a b"])
def test_an_endpoint_that_names_no_host_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the clients panics at some of these."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with pytest.raises(Invalid, match="expected an address as http://HOST or https://HOST:PORT"):
        open_bucket("s3://bucket/t", WORLD)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")
    with pytest.raises(Invalid, match="AWS_ENDPOINT_URL is empty: unset it"):
        open_bucket("s3://bucket/t", WORLD)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://[::1]:9000/path")
    check_environment("s3")


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("AZURE_STORAGE_ENDPOINT", "az://container/t"),
        ("AZURE_ENDPOINT", "az://container/t"),
        ("GOOGLE_BASE_URL", "gs://bucket/t"),
    ],
)
def test_so_is_one_of_another_store(
    variable: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "localhost:9000")
    with pytest.raises(Invalid, match=f"{variable} is 'localhost:9000', .*http://localhost:9000"):
        open_bucket(url, WORLD)


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("AWS_REGION", "s3://bucket/t"),
        ("AWS_ACCESS_KEY_ID", "s3://bucket/t?client=boto3"),
        ("AWS_SECRET_ACCESS_KEY", "s3://bucket/t?client=obstore"),
        ("AWS_SESSION_TOKEN", "s3://bucket/t"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "az://container/t"),
    ],
)
@pytest.mark.parametrize(
    ("value", "said"),
    [("secret\n", "ends with a line break"), ("sec\nret", "has a control character inside")],
)
def test_a_setting_that_no_request_can_carry_is_refused_by_name_and_not_shown(
    variable: str, url: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a secret that was read from a file with the line's end."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(Invalid, match=f"{variable} {said}") as refused:
        open_bucket(url, WORLD)
    assert "secret" not in str(refused.value)


def test_a_key_of_google_may_have_lines_and_other_stores_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "{\n}")
    monkeypatch.setenv("AWS_REGION", "eu\n")
    check_environment("gs")
    assert open_bucket(tmp_path, WORLD).url == f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file:///lake/t%C3%A4ble", "täble"),
        ("file:///lake/x%2541y?durable=false", "x%41y"),
        ("s3://bucket/x%41y", "x%41y"),
        ("memory://t", "t"),
    ],
)
def test_the_last_part_of_a_url_is_the_name_as_people_write_it(url: str, name: str) -> None:
    assert last_part(url) == name


def test_a_folder_inside_a_lake_has_the_url_that_opens_it(tmp_path: Path) -> None:
    for name in ("täble", "x%41y", "a b", "x#y", "g[1]"):
        inside = Prefixed(open_bucket(f"{tmp_path}/lake", WORLD), name)
        assert inside.url == open_bucket(f"{tmp_path}/lake/{name}", WORLD).url
        assert last_part(inside.url) == name
