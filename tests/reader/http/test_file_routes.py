"""Files in cells over HTTP: uploaded in a stream, named by rows, downloaded as attachments."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import blockstore as bs
from blockstore.bucket import ObjectInfo, open_bucket
from blockstore.bucket.local import LocalBucket
from blockstore.client import Client
from blockstore.errors import Invalid, NotFound
from blockstore.names import FILES, file_key
from blockstore.world import World
from tests.reader.http.gateways import FEW, READ, WRITE, Served, make_lake, serving, settings

SCHEMA = bs.typed_schema([("name", "string"), bs.file("doc")])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("files")
    url = make_lake(folder)
    bs.create(f"{folder}/lake/papers?durable=false", schema=SCHEMA, row_ids=True)
    with serving(settings(url, folder)) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, WRITE) as one:
        yield one


def files(served: Served) -> set[str]:
    url = served.gateway.settings.tables.urls[0].partition("?")[0]
    return {info.key for info in open_bucket(f"{url}/papers", World.real()).list(FILES)}


def put_row(client: Client, handle: object) -> int:
    """Add a row with the file, and return its id."""
    client.put_rows("papers", [{"name": "x", "doc": handle}])
    found = client.sql("select max(_row_id) as id from papers").to_pylist()
    return int(found[0]["id"])


def test_a_file_is_uploaded_named_by_a_row_and_downloaded(
    client: Client, served: Served, tmp_path: Path
) -> None:
    path = tmp_path / 'Grüße "a".pdf'
    path.write_bytes(b"%PDF" + b"x" * 100_000)
    handle = client.put_file("papers", path)
    assert (handle["name"], handle["content_type"]) == (path.name, "application/pdf")
    row = put_row(client, handle)
    assert client.get_file("papers", row, "doc", tmp_path / "back") == 100_004
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    found = served.http.get(f"/v1/tables/papers/rows/{row}/files/doc")
    assert found.headers["content-type"] == "application/pdf"
    assert found.headers["content-length"] == "100004"
    assert found.headers["content-disposition"] == (
        "attachment; filename=\"Gru_e_a_.pdf\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%22a%22.pdf"
    )
    same = {"If-None-Match": found.headers["etag"]}
    again = served.http.get(f"/v1/tables/papers/rows/{row}/files/doc", headers=same)
    assert (again.status_code, again.content) == (304, b"")
    shown = client.row("papers", row)["doc"]
    assert shown == handle


def test_a_range_of_a_file_and_its_size_are_asked_for(client: Client, served: Served) -> None:
    handle = client.put_file("papers", bytes(range(200)), name="f")
    path = f"/v1/tables/papers/rows/{put_row(client, handle)}/files/doc"
    data, etag = bytes(range(200)), f'"{handle["sha256"]}"'
    for asked, first, last in (
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=150-", 150, 199),
        ("bytes=150-999", 150, 199),
        ("bytes=-20", 180, 199),
        ("bytes=-999", 0, 199),
    ):
        for more in ({}, {"If-Range": etag}):
            found = served.http.get(path, headers={"Range": asked, **more})
            assert (found.status_code, found.content) == (206, data[first : last + 1]), asked
            assert found.headers["content-range"] == f"bytes {first}-{last}/200"
            assert (found.headers["etag"], found.headers["accept-ranges"]) == (etag, "bytes")
    for asked in ("bytes=0-1,5-6", "lines=0-1", "bytes=-", "bytes=9-3", "x"):
        whole = served.http.get(path, headers={"Range": asked})
        assert (whole.status_code, whole.content) == (200, data), asked
    changed = served.http.get(path, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert (changed.status_code, len(changed.content)) == (200, 200)
    for asked in ("bytes=200-", "bytes=200-300", "bytes=-0"):
        beyond = served.http.get(path, headers={"Range": asked})
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */200")
    head, whole = served.http.head(path), served.http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "content-disposition"):
        assert head.headers[name] == whole.headers[name], name
    assert served.http.head(path, headers={"If-None-Match": etag}).status_code == 304
    assert served.http.head(path.replace("doc", "name")).status_code == 400


def test_conditions_on_the_etag(client: Client, served: Served) -> None:
    handle = client.put_file("papers", b"0123456789", name="f")
    path = f"/v1/tables/papers/rows/{put_row(client, handle)}/files/doc"
    etag = f'"{handle["sha256"]}"'
    for name, value, status in (
        ("If-None-Match", "*", 304),
        ("If-None-Match", f'W/{etag}, "x"', 304),
        ("If-None-Match", f'"x", {etag}', 304),
        ("If-None-Match", '"x"', 206),
        ("If-None-Match", "", 206),
        ("If-Match", etag, 206),
        ("If-Match", f'"x",{etag}', 206),
        ("If-Match", "*", 206),
        ("If-Match", "", 206),
        ("If-Match", '"x"', 412),
        ("If-Match", f"W/{etag}", 412),
    ):
        found = served.http.get(path, headers={"Range": "bytes=2-4", name: value})
        assert found.status_code == status, (name, value)
        assert (found.content == b"234") is (status == 206)
        head = served.http.head(path, headers={"Range": "bytes=2-4", name: value})
        # A range is of GET alone.
        assert (head.status_code, head.content) == (200 if status == 206 else status, b"")
    refused = served.http.get(path, headers={"If-Match": '"x"'}).json()
    assert refused["error"] == "precondition_failed"
    assert etag in refused["message"]


def test_an_empty_file_has_no_range(client: Client, served: Served) -> None:
    handle = client.put_file("papers", b"", name="f")
    path = f"/v1/tables/papers/rows/{put_row(client, handle)}/files/doc"
    for asked in ("bytes=0-", "bytes=0-0", "bytes=-5", "bytes=-0"):
        found = served.http.get(path, headers={"Range": asked})
        assert (found.status_code, found.headers["content-range"]) == (416, "bytes */0"), asked
    whole, head = served.http.get(path), served.http.head(path)
    assert (whole.status_code, whole.content, head.status_code) == (200, b"", 200)
    assert head.headers["content-length"] == "0"


def test_a_look_is_refused_as_a_download_is(client: Client, served: Served) -> None:
    row = put_row(client, client.put_file("papers", b"one", name="f"))
    path = f"/v1/tables/papers/rows/{row}/files/doc"
    for one in (
        path.replace("papers", "nowhere"),
        path.replace(f"/{row}/", "/999999/"),
        path.replace(f"/{row}/", "/x/"),
        path.replace("doc", "nope"),
        f"{path}?version=1",
    ):
        head = served.http.head(one)
        assert (head.status_code, head.content) == (served.http.get(one).status_code, b""), one
        assert head.status_code in (400, 404), one
    with served.as_(FEW) as few:
        assert few.head(path).status_code == 404
    client.delete_rows("papers", [row])
    assert (served.http.head(path).status_code, served.http.get(path).status_code) == (404, 404)


def test_a_look_at_lost_or_cut_bytes_fails_as_their_download_does(
    client: Client, served: Served
) -> None:
    url = served.gateway.settings.tables.urls[0].partition("?")[0]
    for data in (None, b"", b"on", b"one and more"):
        handle = client.put_file("papers", b"one", name="own")
        path = f"/v1/tables/papers/rows/{put_row(client, handle)}/files/doc"
        (named,) = Path(f"{url}/papers/{FILES}{handle['id']}").glob("own*")
        if data is None:
            named.unlink()
        else:
            named.write_bytes(data)
        head, whole = served.http.head(path), served.http.get(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), data
        assert head.status_code == (200 if data == b"one and more" else 500)
        same = {"If-None-Match": f'"{handle["sha256"]}"'}
        assert served.http.head(path, headers=same).status_code == 304, "as GET, which sends none"


def test_a_look_costs_one_more_request_at_the_store(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = put_row(client, client.put_file("papers", b"one", name="f"))
    path = f"/v1/tables/papers/rows/{row}/files/doc"
    asked: list[str] = []
    head, get_range = LocalBucket.head, LocalBucket.get_range

    def headed(bucket: LocalBucket, key: str) -> ObjectInfo:
        asked.append(f"head {key}")
        return head(bucket, key)

    def ranged(bucket: LocalBucket, key: str, start: int, length: int) -> bytes:
        asked.append(f"range {key}")
        return get_range(bucket, key, start, length)

    monkeypatch.setattr(LocalBucket, "head", headed)
    monkeypatch.setattr(LocalBucket, "get_range", ranged)
    assert served.http.head(path).status_code == 200
    assert [one.split()[0] for one in asked if FILES in one] == ["head"]


def test_a_page_in_a_file_can_do_nothing(client: Client, served: Served) -> None:
    handle = client.put_file("papers", b"<script>", name="a.html", content_type="text/html")
    found = served.http.get(f"/v1/tables/papers/rows/{put_row(client, handle)}/files/doc")
    assert found.content == b"<script>"
    assert found.headers["content-type"].startswith("text/html")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in found.headers["content-security-policy"]
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert found.headers["content-disposition"].startswith("attachment;")


@pytest.mark.parametrize("data", [b"", b"x", b"x" * (1 << 20)])
def test_a_file_of_any_size_up_to_the_limit(
    client: Client, served: Served, data: bytes, tmp_path: Path
) -> None:
    row = put_row(client, client.put_file("papers", data, name="f"))
    assert client.get_file("papers", row, "doc", tmp_path / "back") == len(data)
    assert (tmp_path / "back").read_bytes() == data


def test_a_file_above_the_limit_is_refused_and_leaves_nothing(
    client: Client, served: Served
) -> None:
    before = files(served)
    with pytest.raises(Invalid, match="larger than the limit"):
        client.put_file("papers", b"x" * ((1 << 20) + 1), name="f")

    def parts() -> Iterator[bytes]:
        for _ in range(3):
            yield b"x" * (1 << 19)

    found = served.http.post("/v1/tables/papers/files?name=f", content=parts())
    assert found.status_code == 413
    assert files(served) == before


def test_a_version_of_a_row_has_the_file_that_it_had(client: Client, tmp_path: Path) -> None:
    row = put_row(client, client.put_file("papers", b"one", name="f"))
    version = client.row("papers", row)["_version"]
    second = client.put_file("papers", b"two", name="f")
    client.set_cells("papers", [{"_row_id": row, "doc": second}])
    client.get_file("papers", row, "doc", tmp_path / "now")
    client.get_file("papers", row, "doc", tmp_path / "then", version=version)
    assert [(tmp_path / name).read_bytes() for name in ("now", "then")] == [b"two", b"one"]


def test_a_row_of_a_file_that_is_not_there_is_refused(client: Client, served: Served) -> None:
    handle = client.put_file("papers", b"one", name="f") | {"sha256": "0" * 64}
    with pytest.raises(Invalid, match="'doc' names a file in row 0"):
        client.put_rows("papers", [{"name": "x", "doc": handle}])


def test_what_is_not_there_is_404_and_what_is_no_file_is_400(
    client: Client, served: Served, tmp_path: Path
) -> None:
    row = put_row(client, None)
    with pytest.raises(NotFound, match="names no file"):
        client.get_file("papers", row, "doc", tmp_path / "x")
    with pytest.raises(NotFound):
        client.get_file("papers", 999_999, "doc", tmp_path / "x")
    with pytest.raises(Invalid, match="no column of type file"):
        client.get_file("papers", row, "name", tmp_path / "x")
    with pytest.raises(Invalid, match="no column of type file"):
        client.put_file("flights", b"x", name="f")
    with pytest.raises(NotFound):
        client.put_file("nowhere", b"x", name="f")
    assert served.http.post("/v1/tables/papers/files?name=a%0Ab", content=b"x").status_code == 400
    assert not (tmp_path / "x").exists()


def test_a_damaged_file_never_arrives(client: Client, served: Served, tmp_path: Path) -> None:
    handle = client.put_file("papers", b"one", name="f")
    row = put_row(client, handle)
    url = served.gateway.settings.tables.urls[0].partition("?")[0]
    open_bucket(f"{url}/papers", World.real()).put(file_key(handle["id"], "f"), b"onx")
    found = served.http.get(f"/v1/tables/papers/rows/{row}/files/doc")
    assert found.status_code == 500
    assert "another SHA-256" in found.json()["message"]


def test_a_file_that_is_encoded_for_the_way_is_refused(served: Served) -> None:
    """Stored as it comes, it would be another file under the name and type of this one."""
    packed = gzip.compress(b"hello")
    sent = served.http.post(
        "/v1/tables/papers/files?name=a.txt", content=packed, headers={"Content-Encoding": "gzip"}
    )
    assert (sent.status_code, "Content-Encoding gzip" in sent.json()["message"]) == (415, True)


def test_an_upload_needs_the_scope_write(served: Served) -> None:
    with served.as_(READ) as reader:
        found = reader.post("/v1/tables/papers/files?name=f", content=b"x")
    assert found.status_code == 403
    assert "lacks scope 'write'" in found.json()["message"]


def test_a_csv_round_trip_keeps_files(client: Client, tmp_path: Path) -> None:
    row = put_row(client, client.put_file("papers", b"one", name='a "b", c.txt'))
    sheet = tmp_path / "papers.csv"
    client.download("papers", sheet, row_ids=True)
    text = sheet.read_text()
    assert '""name"":""a \\""b\\"", c.txt""' in text
    sheet.write_text(text.replace(',"x",', ',"edited",'))
    client.upload("papers", sheet).wait()
    assert client.row("papers", row)["name"] == "edited"
    assert client.get_file("papers", row, "doc", tmp_path / "back") == 3
    sheet.write_text(text.replace('""sha256"":""', '""sha256"":""0'))
    # Rows of other tests, of which one has no file, are before it in the sheet.
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "sha256" in one)
    with pytest.raises(Invalid, match=f"line {line}:"):
        client.upload("papers", sheet).wait()


def test_a_file_goes_to_http_1_0_as_it_is_read(
    client: Client, served: Served, tmp_path: Path
) -> None:
    path = tmp_path / "old.bin"
    path.write_bytes(b"x" * 200_000)
    row = put_row(client, client.put_file("papers", path))
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as wire:
        wire.sendall(
            f"GET /v1/tables/papers/rows/{row}/files/doc HTTP/1.0\r\nHost: x\r\nAuthorization: "
            f"Bearer {READ}\r\n\r\n".encode()
        )
        with wire.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert b"transfer-encoding" not in head.lower()
    assert body == path.read_bytes()
