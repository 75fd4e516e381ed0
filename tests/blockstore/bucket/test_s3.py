"""Which client sends what, behind ``s3://``."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from blockstore.bucket import open_bucket
from blockstore.bucket.s3 import S3Bucket
from blockstore.bucket.traffic.traffic import total_traffic
from blockstore.clock import ManualClock
from blockstore.errors import AlreadyExists, Contended, Invalid, MissingExtra
from blockstore.world import World
from tests.support.scripted_s3 import Answer, Request, Scripted

HEADERS = {"ETag": '"e"', "Last-Modified": "Tue, 14 Nov 2023 23:13:20 GMT"}
FOUND = Answer(body=b"0123456789", headers=HEADERS)
STORED = Answer(headers=HEADERS)
EMPTY = Answer(body=b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")

Open = Callable[..., tuple[S3Bucket, Scripted]]


@pytest.fixture
def scripted(scripted_server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Open:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", scripted_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "scripted")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "scripted")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    def make(*responses: Answer) -> tuple[S3Bucket, Scripted]:
        scripted_server.script(*responses)
        return S3Bucket("bucket", ManualClock()), scripted_server

    return make


def client(request: Request) -> str:
    agent = {name.lower(): value for name, value in request.headers.items()}["user-agent"]
    return "boto3" if "oto" in agent else "obstore"


OBSTORES: dict[str, tuple[Callable[[S3Bucket], object], Answer]] = {
    "get": (lambda bucket: bucket.get("a"), FOUND),
    "get_range": (lambda bucket: bucket.get_range("a", 0, 10), FOUND),
    "head": (lambda bucket: bucket.head("a"), FOUND),
    "list": (lambda bucket: list(bucket.list("index/")), EMPTY),
    "root": (lambda bucket: list(bucket.list()), EMPTY),
    "prefixes": (lambda bucket: list(bucket.prefixes()), EMPTY),
    "put": (lambda bucket: bucket.put("a", b"x"), STORED),
    "put_if_absent": (lambda bucket: bucket.put_if_absent("a", b"x"), STORED),
    "put_if_match": (lambda bucket: bucket.put_if_match("a", b"x", "e"), STORED),
    "delete": (lambda bucket: bucket.delete(["a", "b"]), Answer(status=204)),
    "delete_once": (lambda bucket: bucket.delete_once("a"), Answer(status=204)),
}
BOTO3S: dict[str, tuple[Callable[[S3Bucket], object], Answer]] = {
    "keeps_versions": (
        lambda bucket: bucket.keeps_versions(),
        Answer(body=b"<VersioningConfiguration/>"),
    ),
    "many": (
        lambda bucket: bucket.delete(f"{number}" for number in range(9)),
        Answer(
            body=b"<DeleteResult>"
            + b"".join(b"<Deleted><Key>%d</Key></Deleted>" % number for number in range(9))
            + b"</DeleteResult>"
        ),
    ),
    "partly": (lambda bucket: list(bucket.list("index/0001")), EMPTY),
    "parts": (lambda bucket: list(bucket.prefixes("01K")), EMPTY),
}


@pytest.mark.parametrize("method", OBSTORES)
def test_obstore_sends_what_is_frequent(scripted: Open, method: str) -> None:
    request, answer = OBSTORES[method]
    bucket, server = scripted(answer)
    request(bucket)
    assert {client(sent) for sent in server.requests} == {"obstore"}


@pytest.mark.parametrize("method", BOTO3S)
def test_boto3_sends_what_obstore_cannot(scripted: Open, method: str) -> None:
    request, answer = BOTO3S[method]
    bucket, server = scripted(answer)
    request(bucket)
    assert [client(sent) for sent in server.requests] == ["boto3"]


def test_a_small_object_is_obstores_and_a_large_one_goes_in_parts(scripted: Open) -> None:
    bucket, server = scripted(FOUND)
    writer = bucket.writer("a")
    writer.write(b"x" * 1000)
    writer.close()
    assert [(client(sent), sent.body) for sent in server.requests] == [("obstore", b"x" * 1000)]
    created = Answer(body=b"<R><UploadId>upload-1</UploadId></R>")
    stored = [STORED] * 3
    bucket, server = scripted(created, *stored, Answer(body=b'<R><ETag>"done"</ETag></R>'))
    writer = bucket.writer("a")
    writer.write(b"x" * (16 << 20) + b"y")
    writer.close()
    assert {client(sent) for sent in server.requests} == {"boto3"}
    assert [sent.method for sent in server.requests] == ["POST", "PUT", "PUT", "PUT", "POST"]


@pytest.mark.parametrize(
    "refusal",
    [
        Answer(status=301, code="PermanentRedirect"),
        Answer(status=400, code="AuthorizationHeaderMalformed"),
    ],
    ids=lambda answer: answer.code,
)
@pytest.mark.parametrize("method", ["get", "put_if_absent", "list"])
def test_a_bucket_in_another_region_is_boto3s_from_then_on(
    scripted: Open, method: str, refusal: Answer
) -> None:
    request, answer = OBSTORES[method]
    bucket, server = scripted(refusal, answer)
    request(bucket)
    assert [client(sent) for sent in server.requests] == ["obstore", "boto3"]
    request(bucket)
    assert client(server.requests[-1]) == "boto3"


@pytest.mark.parametrize("lacking", ["boto3", "obstore"])
@pytest.mark.parametrize("method", [*OBSTORES, "many", "partly"])
def test_with_one_client_the_other_sends_everything(
    scripted: Open, method: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, lacking)
    request, answer = {**OBSTORES, **BOTO3S}[method]
    bucket, server = scripted(answer)
    request(bucket)
    assert lacking not in {client(sent) for sent in server.requests}
    assert server.requests


def test_without_boto3_versions_are_unknown_and_large_objects_are_written(
    scripted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "boto3")
    bucket, _ = scripted(FOUND)
    assert bucket.keeps_versions() is None
    writer = bucket.writer("a")
    writer.write(b"x")
    writer.close()


def test_without_any_client_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "boto3", "obstore")
    with pytest.raises(MissingExtra, match=r"pip install 'blocklake\[s3\]'"):
        S3Bucket("bucket", ManualClock())


def listed(*keys: str, size: int = 3) -> Answer:
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2024-01-01T00:00:00.123Z</LastModified>"
        f"<Size>{size}</Size></Contents>"
        for key in keys
    )
    end = "<IsTruncated>false</IsTruncated></ListBucketResult>"
    return Answer(body=f"<ListBucketResult>{contents}{end}".encode())


def test_a_foreign_key_that_obstore_refuses_hides_no_other(scripted: Open) -> None:
    bucket, server = scripted(listed("a/1", "a//b"))
    assert [info.key for info in bucket.list("a/")] == ["a/1", "a//b"]
    assert [client(sent) for sent in server.requests] == ["obstore", "boto3"]


def test_a_folder_marker_of_a_console_is_no_object(scripted: Open) -> None:
    bucket, server = scripted(listed("a/folder/", size=0), Answer(status=404))
    assert list(bucket.list("a/")) == []
    assert [sent.method for sent in server.requests] == ["GET", "HEAD"]


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in packages else found(name, *rest),
    )


def test_a_conflict_is_no_lost_race_unless_the_key_is_taken(scripted: Open) -> None:
    conflict = Answer(status=409, code="ConditionalRequestConflict")
    bucket, _ = scripted(conflict, Answer(status=404))
    with pytest.raises(Contended):
        bucket.put_if_absent("a", b"x")
    bucket, _ = scripted(Answer(status=412, code="PreconditionFailed"))
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("a", b"x")


def in_a_child(act: Callable[[], object]) -> int:
    """The exit code of a forked child: 0 if the act ended, a signal if it waits for ever."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            act()
        except BaseException:
            os._exit(2)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("method", OBSTORES)
def test_a_forked_child_uses_boto3(scripted: Open, method: str) -> None:
    request, answer = OBSTORES[method]
    bucket, server = scripted(answer)
    request(bucket)
    before = len(server.requests)
    assert in_a_child(lambda: request(bucket)) == 0
    assert in_a_child(lambda: request(S3Bucket("bucket", ManualClock()))) == 0
    assert {client(sent) for sent in server.requests[before:]} == {"boto3"}
    request(bucket)
    assert client(server.requests[-1]) == "obstore"


def test_a_process_that_forks_first_uses_obstore_in_its_children(scripted: Open) -> None:
    _, server = scripted(FOUND)
    code = (
        "import os\n"
        "from blockstore.bucket.s3 import S3Bucket\n"
        "from blockstore.clock import SystemClock\n"
        "bucket = S3Bucket('bucket', SystemClock())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(bucket.get('a').data != b'0123456789')\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert [client(sent) for sent in server.requests] == ["obstore"]


def test_what_is_frequent_imports_no_boto3(scripted: Open) -> None:
    scripted(FOUND)
    code = (
        "import sys\n"
        "from blockstore.bucket import open_bucket\n"
        "from blockstore.world import World\n"
        "bucket = open_bucket('s3://bucket/t', World.real())\n"
        "assert bucket.get('a').data == b'0123456789'\n"
        "bucket.put('a', b'x'), bucket.put_if_absent('a', b'x'), bucket.delete(['a'])\n"
        "writer = bucket.writer('a'); writer.write(b'x'); writer.close()\n"
        "assert not {'boto3', 'botocore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_refusal_is_the_same_by_either_client(scripted: Open) -> None:
    bucket, server = scripted(Answer(status=400, code="EntityTooLarge"))
    with pytest.raises(Invalid, match="EntityTooLarge"):
        bucket.put("a", b"x")
    assert len(server.requests) == 1


def test_no_put_waits_to_be_told_to_continue(scripted: Open) -> None:
    from blockstore.bucket.s3_boto3 import Boto3Bucket

    _, server = scripted(STORED)
    for bucket in (S3Bucket("bucket", ManualClock()), Boto3Bucket("bucket", ManualClock())):
        bucket.put("a", b"x" * 100_000)
        bucket.put_if_absent("a", b"x")
    assert len(server.requests) == 4
    assert not any("expect" in map(str.lower, sent.headers) for sent in server.requests)


def test_a_store_that_limits_the_rate_slows_the_process_and_loses_nothing(
    scripted: Open,
) -> None:
    _, server = scripted(Answer(status=503, code="SlowDown"), FOUND)
    world = World.manual()
    bucket, other = (open_bucket("s3://bucket/" + name, world) for name in ("a", "b"))
    before = total_traffic(world.clock.monotonic_s())
    assert bucket.get("x").data == b"0123456789"
    after = total_traffic(world.clock.monotonic_s())
    assert after.throttled - before.throttled == 1
    assert after.retries - before.retries == 1
    assert after.rate > 0
    start_s = world.clock.monotonic_s()
    for _ in range(10):
        other.get("x")
    assert world.clock.monotonic_s() - start_s > 0.5
    assert len(server.requests) == 12
