"""Files in cells, through a handle on a table: what is promised of uploads, rows and reading."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Conflict, Corrupt, Invalid, NotFound, Unavailable
from blockstore.files import reading, upload
from blockstore.format.definition import Definition
from blockstore.format.file_handle import FileHandle
from blockstore.index import log as index_log
from blockstore.names import DELETION_MARK, FILE_RECORD, FILES, file_key, file_object_name
from blockstore.table import Table
from blockstore.world import World
from tests.support.faulty import FaultyBucket

START_MS = 1_700_000_000_000
DAY_S = 86_400.0


@pytest.fixture
def world() -> World:
    return World.manual(seed=1, now_ms=START_MS)


def made(world: World, **options: Any) -> Table:
    """A table with a name and a file a row."""
    schema = bs.typed_schema([("name", "string"), bs.file("doc"), bs.file("scan")])
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(schema, **options)
    return Table(bucket, world, index_log.create(bucket, world, definition))


@pytest.fixture
def table(world: World) -> Table:
    return made(world, row_ids=True)


def row(name: str, doc: FileHandle | None, scan: FileHandle | None = None) -> list[dict[str, Any]]:
    return [{"name": name, "doc": doc, "scan": scan}]


def rows(table: Table, *named: tuple[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"name": name, "doc": doc, "scan": None} for name, doc in named],
        schema=table.definition.schema,
    )


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 250])
def test_a_file_is_read_back_by_row_and_column_byte_for_byte(
    table: Table, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 100)
    monkeypatch.setattr(upload, "_PIECE", 100)
    data = bytes(place % 251 for place in range(size))
    handle = table.put_file(data, name="a.pdf")
    assert handle["sha256"] == hashlib.sha256(data).hexdigest()
    assert (handle["bytes"], handle["content_type"]) == (size, "application/pdf")
    table.append(rows(table, ("a", handle)))
    with table.open_file(0, "doc") as file:
        assert file.read() == data
        assert file.handle == handle
    with table.open_handle(handle) as file:
        assert file.read(7) == data[:7]


def test_a_path_and_an_open_file_are_uploaded_too(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"hello")
    assert table.put_file(path)["name"] == "notes.txt"
    with open(path, "rb") as opened:
        handle = table.put_file(opened, name="other", content_type="text/x-notes")
    assert (handle["name"], handle["content_type"]) == ("other", "text/x-notes")
    assert table.open_handle(handle).read() == b"hello"


def test_a_version_of_a_row_has_the_file_that_it_had(table: Table) -> None:
    first, second = (table.put_file(data, name="f") for data in (b"one", b"two"))
    table.append(rows(table, ("a", first)))
    version = table.poll()
    table.set_cells([{"_row_id": 0, "doc": second}])
    assert table.open_file(0, "doc").read() == b"two"
    assert table.open_file(0, "doc", version=version).read() == b"one"
    table.delete_rows([0])
    with pytest.raises(NotFound, match="was deleted in version"):
        table.open_file(0, "doc")


def test_rows_of_one_key_with_other_labels_have_files_of_their_own(world: World) -> None:
    table = made(world, key=("name",))
    east, west = (table.put_file(data, name="f") for data in (b"east", b"west"))
    table.upsert(rows(table, ("a", west)), labels={"side": "west"})
    assert table.open_file("a", "doc").read() == b"west"
    table.upsert(rows(table, ("a", east)), labels={"side": "east"})
    with pytest.raises(Invalid, match="2 rows have the key 'a', with the labels"):
        table.open_file("a", "doc")
    assert table.open_file("a", "doc", labels={"side": "west"}).read() == b"west"
    assert table.open_file("a", "doc", labels={"side": "east"}).read() == b"east"
    table.delete_rows(["a"], labels={"side": "east"})
    assert table.open_file("a", "doc").read() == b"west", "the other was deleted later"


def test_what_is_not_a_file_of_a_row_is_one_clear_error(table: Table) -> None:
    table.append(rows(table, ("a", None)))
    with pytest.raises(NotFound, match="names no file"):
        table.open_file(0, "doc")
    with pytest.raises(Invalid, match=r"no column of type file.*doc, scan"):
        table.open_file(0, "name")
    with pytest.raises(NotFound):
        table.open_file(7, "doc")
    with pytest.raises(Invalid, match="what put_file returned"):
        table.open_handle({"id": "x"})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-1], "has 2 bytes"),
        (lambda data: data[:-1] + b"x", "another SHA-256"),
    ],
)
def test_a_wrong_byte_is_an_error_before_the_last_piece(
    table: Table, change: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 2)
    handle = table.put_file(b"one", name="f")
    table.append(rows(table, ("a", handle)))
    key = file_key(handle["id"], "f")
    table.bucket.put(key, change(b"one"))
    file = table.open_file(0, "doc")
    assert file.read(2) == b"on"
    with pytest.raises(Corrupt, match=why):
        file.read()


def test_a_file_that_is_gone_although_a_row_names_it_is_corrupt(table: Table) -> None:
    handle = table.put_file(b"one", name="f")
    table.append(rows(table, ("a", handle)))
    table.bucket.delete([file_key(handle["id"], "f")])
    with pytest.raises(Corrupt, match="has lost its bytes"):
        table.open_file(0, "doc").read()
    table.bucket.delete([file_key(handle["id"], FILE_RECORD)])
    with pytest.raises(Corrupt, match=r"names a file that is gone.*restore files/"):
        table.open_file(0, "doc")


def changes(table: Table, handle: FileHandle) -> dict[str, Any]:
    """Every way to bring a row that names a file."""
    new = rows(table, ("b", handle))
    with_ids = new.append_column("_row_id", pa.array([0], pa.int64()))
    return {
        "append": lambda: table.append(new),
        "overwrite": lambda: table.overwrite(new),
        "overwrite some": lambda: table.overwrite(new, where="name = 'b'"),
        "put_rows": lambda: table.put_rows(with_ids),
        "set_cells": lambda: table.set_cells([{"_row_id": 0, "doc": handle}]),
        "update": lambda: table.update({"doc": handle}),
        "merge": lambda: (
            table.merge(rows(table, ("a", handle)), on="name").when_matched_update().execute()
        ),
    }


KEYED = ("upsert", "insert")


def keyed_changes(table: Table, handle: FileHandle) -> dict[str, Any]:
    new = rows(table, ("b", handle))
    return {"upsert": lambda: table.upsert(new), "insert": lambda: table.insert(new)}


@pytest.mark.parametrize("door", ["append", "overwrite", "overwrite some"])
def test_rows_without_an_identity_are_looked_at_too(world: World, door: str) -> None:
    table = made(world)
    handle = table.put_file(b"one", name="f")
    wrong = FileHandle(**{**handle, "sha256": "0" * 64})
    with pytest.raises(Invalid, match=r"column 'doc' names a file in row 0.*the sha256"):
        changes(table, wrong)[door]()
    assert table.poll() == 1
    changes(table, handle)[door]()
    found = table.snapshot().scan().to_table()["doc"][0].as_py()
    assert table.open_handle(found).read() == b"one"


@pytest.mark.parametrize(
    "door",
    ["append", "overwrite", "overwrite some", "put_rows", "set_cells", "update", "merge", *KEYED],
)
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"id": "01KA5C3M2Q0V8E6R9T1W4Y7ZBN"}, "was never uploaded there"),
        ({"id": "x"}, "what put_file returned"),
        ({"sha256": "0" * 64}, "has the sha256"),
        ({"bytes": 4}, "has the bytes 3, and its handle says 4"),
        ({"name": "g"}, "has the name 'f'"),
        ({"content_type": None}, "has the content_type"),
    ],
)
def test_a_row_names_only_a_file_that_is_there(
    world: World, door: str, wrong: dict[str, Any], why: str
) -> None:
    table = made(world, key="name") if door in KEYED else made(world, row_ids=True)
    right = table.put_file(b"one", name="f")
    handle = FileHandle(**{**right, **wrong})
    if door not in KEYED:
        table.append(rows(table, ("a", None)))
    before = table.poll()
    ways = keyed_changes if door in KEYED else changes
    with pytest.raises(Invalid, match=why) as raised:
        ways(table, handle)[door]()
    assert raised.value.row == 0
    assert table.poll() == before
    ways(table, right)[door]()
    assert table.poll() == before + 1


def test_a_file_of_another_table_is_refused(world: World, table: Table) -> None:
    handle = made(world, row_ids=True).put_file(b"one", name="f")
    with pytest.raises(Invalid, match="was never uploaded there"):
        table.append(rows(table, ("a", handle)))


def test_the_row_of_a_wrong_file_is_counted_over_the_whole_write(table: Table) -> None:
    handle = table.put_file(b"one", name="f")
    wrong = FileHandle(**{**handle, "bytes": 4})
    batches = [rows(table, ("a", handle)), rows(table, ("b", handle), ("c", wrong))]
    with pytest.raises(Invalid, match="in row 2") as raised:
        table.append(pa.concat_tables(batches))
    assert raised.value.row == 2


def test_a_file_that_is_marked_for_removal_is_refused_and_uploaded_again(
    world: World, table: Table
) -> None:
    handle = table.put_file(b"one", name="f")
    world.clock.sleep(3 * DAY_S)
    table.bucket.put(file_key(handle["id"], DELETION_MARK), b"{}")
    with pytest.raises(Invalid, match=r"is marked for removal.*upload it with put_file"):
        table.append(rows(table, ("a", handle)))
    table.append(rows(table, ("a", table.put_file(b"one", name="f"))))
    assert table.open_file(0, "doc").read() == b"one"


@pytest.mark.parametrize(("stored", "why"), [(None, "are missing"), (b"on", "has 2 bytes")])
def test_an_old_file_is_looked_at_itself(
    world: World, table: Table, stored: bytes | None, why: str
) -> None:
    handle = table.put_file(b"one", name="f")
    key = file_key(handle["id"], "f")
    world.clock.sleep(3 * DAY_S)
    table.append(rows(table, ("a", handle)))
    table.bucket.delete([key])
    if stored is not None:
        table.bucket.put(key, stored)
    with pytest.raises(Invalid, match=why):
        table.append(rows(table, ("b", handle)))


def test_what_a_change_copies_from_its_row_is_not_looked_up(table: Table) -> None:
    handles = [table.put_file(b"x", name=f"f{place}") for place in range(5)]
    table.append(rows(table, *((f"r{place}", one) for place, one in enumerate(handles))))
    faulty = FaultyBucket(table.bucket)
    counted = Table.open_bucket(faulty, table.world)
    counted.update({"name": "new"})
    counted.set_cells([{"_row_id": 1, "name": "newer"}])
    now = counted.snapshot().scan(columns=["_row_id", "_version", "name", "doc", "scan"]).to_table()
    edited = now.set_column(2, "name", pa.array([f"e{place}" for place in range(len(now))]))
    counted.put_rows(edited)
    assert [call for call in faulty.calls if call.key.startswith(FILES)] == []
    counted.set_cells([{"_row_id": 1, "scan": handles[3]}])
    looked = {call.key for call in faulty.calls if call.key.startswith(FILES)}
    assert looked == {file_key(handles[3]["id"], FILE_RECORD)}


def test_each_new_file_of_a_write_is_looked_at_once(table: Table) -> None:
    handle = table.put_file(b"x", name="f")
    faulty = FaultyBucket(table.bucket)
    Table.open_bucket(faulty, table.world).append(rows(table, *[("a", handle)] * 50))
    calls = [call for call in faulty.calls if call.key.startswith(FILES)]
    assert [(call.method, call.key) for call in calls] == [
        ("get", file_key(handle["id"], FILE_RECORD))
    ]


def test_an_upload_that_failed_leaves_no_file(table: Table) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError("the disk is gone")
            return super().read(2)

    with pytest.raises(OSError, match="gone"):
        table.put_file(Broken(b"data"), name="f")
    assert list(table.bucket.list(FILES)) == []


def test_an_upload_is_begun_again_under_its_id(world: World, table: Table) -> None:
    file = world.ids.ulid()
    faulty = FaultyBucket(table.bucket, refuse={2: Unavailable("down")})
    with pytest.raises(Unavailable):
        upload.put_file(faulty, world, b"one", name="f", file_id=file)
    first = table.put_file(b"one", name="f", file_id=file)
    assert first["id"] == file
    assert table.put_file(b"one", name="f", file_id=file) == first
    with pytest.raises(Conflict, match="a file is never changed"):
        table.put_file(b"two", name="f", file_id=file)
    assert table.open_handle(first).read() == b"one"
    world.clock.sleep(1.1 * DAY_S)
    with pytest.raises(Unavailable, match="upload it again under a new id"):
        table.put_file(b"one", name="f", file_id=file)


def test_an_upload_that_took_a_day_is_no_file(world: World, table: Table) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            world.clock.sleep(0.6 * DAY_S)
            return super().read(2)

    with pytest.raises(Unavailable, match="more than 24 hours ago"):
        table.put_file(Slow(b"data"), name="f")
    assert [info.key for info in table.bucket.list(FILES) if FILE_RECORD in info.key] == []


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a b.pdf", "a_b.pdf"),
        ("../../etc/passwd", "_.._.._etc_passwd"),
        ("..", "_.."),
        ("Prüfung №1.TXT", "Pru_fung_No1.TXT"),
        ("資料", "_"),
        (".hidden", "_.hidden"),
        ("file.json", "_file.json"),
        ("File.JSON", "_File.JSON"),
        ("deletion-mark.json", "_deletion-mark.json"),
        ("C:\\x\\y.doc", "C_x_y.doc"),
        ("x" * 300 + ".tar", "x" * 96 + ".tar"),
        ("x" * 100 + "." + "y" * 100, "x" * 100),
    ],
)
def test_a_name_is_kept_and_its_object_has_a_safe_one(table: Table, name: str, stored: str) -> None:
    assert file_object_name(name) == stored
    handle = table.put_file(b"x", name=name)
    assert handle["name"] == name
    found = {info.key for info in table.bucket.list(FILES)}
    assert found == {file_key(handle["id"], stored), file_key(handle["id"], FILE_RECORD)}
    table.append(rows(table, ("a", handle)))
    assert table.open_file(0, "doc").read() == b"x"


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 1001, "a\x00", "\udc80"])
def test_a_name_that_no_file_can_have_is_refused(table: Table, name: str) -> None:
    with pytest.raises(Invalid, match="the file's name"):
        table.put_file(b"x", name=name)
    assert list(table.bucket.list(FILES)) == []


def test_other_bad_input_of_an_upload_is_refused(table: Table, world: World) -> None:
    with pytest.raises(Invalid, match="pass name="):
        table.put_file(b"x")
    with pytest.raises(Invalid, match="expected a media type"):
        table.put_file(b"x", name="f", content_type="text/html\r\nX: y")
    with pytest.raises(Invalid, match="cannot be read"):
        table.put_file("/does/not/exist")
    with pytest.raises(Invalid, match="expected a path, bytes or open file"):
        table.put_file(7, name="f")  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="the file's id"):
        table.put_file(b"x", name="f", file_id="no")
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(pa.schema([("a", pa.int64())]))
    plain = Table(bucket, world, index_log.create(bucket, world, definition))
    with pytest.raises(Invalid, match="has no column of type file"):
        plain.put_file(b"x", name="f")


def test_only_a_table_with_an_index_has_files(tmp_path: Path) -> None:
    schema = bs.typed_schema([("name", "string"), bs.file("doc")])
    with pytest.raises(Invalid, match="only in a table with an index"):
        bs.create(str(tmp_path / "t"), schema=schema, index=False)
    plain = bs.create(str(tmp_path / "u"), schema=pa.schema([("a", pa.int64())]), index=False)
    with pytest.raises(Invalid, match="only in a table with one"):
        plain.alter(add=[bs.file("doc")])


def test_an_append_of_files_that_is_not_published_is_refused(table: Table) -> None:
    handle = table.put_file(b"x", name="f")
    with pytest.raises(Invalid, match="names none"):
        table.append(rows(table, ("a", handle)), publish=False)
    table.append(rows(table, ("a", None)), publish=False)
