"""Which chunks Spark's JVM reaches by itself, and the sentence where it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from blockstore.bucket import open_bucket
from blockstore.spark.reading.reach import path_of_chunks
from blockstore.world import World


def session(*, connector: bool, endpoint: str = "") -> Any:
    def load(name: str) -> object:
        if not connector:
            raise RuntimeError(f"ClassNotFoundException {name}")
        return object()

    thread = SimpleNamespace(getContextClassLoader=lambda: SimpleNamespace(loadClass=load))
    lang = SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread))
    conf = SimpleNamespace(get={"fs.s3a.endpoint": endpoint}.get)
    context = SimpleNamespace(
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)),
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: conf),
    )
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return open_bucket("s3://lake/flights", World.real())


def test_a_folder_is_reached_by_its_path(tmp_path: Any) -> None:
    path = path_of_chunks(session(connector=False), open_bucket(str(tmp_path), World.real()), "a")
    assert callable(path)
    assert path("chunks/1.parquet") == f"file://{tmp_path}/chunks/1.parquet"


def test_s3_is_reached_by_the_connector_at_the_same_endpoint(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for configured in ("", "s3.amazonaws.com"):
        path = path_of_chunks(session(connector=True, endpoint=configured), s3, "a")
        assert callable(path)
        assert path("B/chunks/1.parquet") == "s3a://lake/flights/B/chunks/1.parquet"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert callable(
        path_of_chunks(session(connector=True, endpoint="http://127.0.0.1:9/"), s3, "a")
    )


def test_s3_is_not_reached_without_the_connector_or_at_another_endpoint(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no S3A connector" in str(path_of_chunks(session(connector=False), s3, "a"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "connector uses Amazon" in str(path_of_chunks(session(connector=True), s3, "a"))
