"""What only a folder has: durability, folders that come and go, links, permissions, a full disk."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blockstore.bucket import local_files
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.local_files import HIDDEN
from blockstore.clock import ManualClock, SystemClock
from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    Invalid,
    NoSpace,
    PreconditionFailed,
    Unanswered,
    Unavailable,
)
from tests.support.unsynced import REAL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "table"


@pytest.fixture(params=[True, False], ids=["unnamed", "hidden"])
def bucket(
    request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch
) -> LocalBucket:
    """A bucket on a system that has files without a name, and on one that has not."""
    if not request.param:
        monkeypatch.setattr(local_files, "_UNNAMED", 0)
    return LocalBucket(root, SystemClock())


def files(root: Path) -> list[str]:
    """Every file below ``root``, hidden ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def keys(bucket: LocalBucket, prefix: str = "") -> list[str]:
    return [info.key for info in bucket.list(prefix)]


def test_opening_makes_nothing(root: Path) -> None:
    bucket = LocalBucket(root, SystemClock())
    assert keys(bucket) == list(bucket.prefixes()) == []
    bucket.delete(["a/b"])
    assert not root.exists()


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Invalid, match="expected a folder"):
        LocalBucket(tmp_path / "file", SystemClock())


def test_the_folder_holds_the_objects_and_nothing_else(bucket: LocalBucket, root: Path) -> None:
    etag = bucket.put("a/b/c", b"1")
    bucket.put("a/b/c", b"22")
    bucket.put_if_absent("d", b"333")
    bucket.put_if_match("a/b/c", b"4444", bucket.get("a/b/c").etag)
    for refused, request in {
        AlreadyExists: lambda: bucket.put_if_absent("d", b""),
        PreconditionFailed: lambda: bucket.put_if_match("a/b/c", b"", etag),
    }.items():
        with pytest.raises(refused):
            request()
    writer = bucket.writer("e/f")
    writer.write(b"x" * 1_000_000)
    writer.close()
    assert files(root) == ["a/b/c", "d", "e/f"]
    assert (root / "a/b/c").read_bytes() == b"4444"


def test_a_listing_is_in_the_order_of_utf8_bytes_over_nested_folders(bucket: LocalBucket) -> None:
    names = ["a/b", "a-b", "a.b/c", "a/c/d", "ab", "a0", "é/b", "\U0001f9f1", "\uffff", "B/z/y"]
    for name in names:
        bucket.put(name, b"")
    assert keys(bucket) == sorted(names, key=str.encode)


def test_a_listing_shows_no_hidden_name_no_link_no_pipe_and_no_folder(
    bucket: LocalBucket, root: Path
) -> None:
    bucket.put("a/b", b"")
    (root / "a" / f"{HIDDEN}1.2.3").write_bytes(b"debris")
    (root / "a" / "link").symlink_to("b")
    (root / "linked").symlink_to("a")
    os.mkfifo(root / "a" / "pipe")
    (root / "empty" / "er").mkdir(parents=True)
    (root / os.fsdecode(b"not-utf8-\xff")).write_bytes(b"")
    assert keys(bucket) == keys(bucket, "a/") == ["a/b"]
    assert [info.key for info in bucket.list("a/", recursive=False)] == ["a/b"]
    assert list(bucket.prefixes()) == ["a/"]
    assert list(bucket.prefixes("e")) == []


def test_hidden_names_are_refused_as_keys(bucket: LocalBucket) -> None:
    for key in (f"{HIDDEN}1", f"a/{HIDDEN}1/b"):
        with pytest.raises(Invalid, match="reserved for the bucket"):
            bucket.put(key, b"")
    bucket.put(f"a{HIDDEN}", b"")


def test_a_symbolic_link_is_followed_by_no_request(
    bucket: LocalBucket, root: Path, tmp_path: Path
) -> None:
    bucket.put("a", b"")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    requests: list[Callable[[], object]] = [
        lambda: bucket.get("out/secret"),
        lambda: bucket.get_range("out/secret", 0, 1),
        lambda: bucket.head("out/secret"),
        lambda: bucket.put("out/new", b""),
        lambda: bucket.put_if_absent("out/new", b""),
        lambda: bucket.put_if_match("out/secret", b"", "0"),
        lambda: bucket.writer("out/new"),
        lambda: bucket.delete(["out/secret"]),
        lambda: list(bucket.list("out/")),
        lambda: list(bucket.prefixes("out/")),
        lambda: bucket.get("file"),
        lambda: bucket.get_range("file", 0, 1),
        lambda: bucket.put("file", b""),
        lambda: bucket.put_if_match("file", b"", "0"),
        lambda: bucket.delete(["file"]),
    ]
    for request in requests:
        with pytest.raises(Invalid, match="symbolic link"):
            request()
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("file", b"")
    assert files(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    LocalBucket(tmp_path / "link", SystemClock()).put("a/b", b"x")
    assert (tmp_path / "real/a/b").read_bytes() == b"x"


def test_an_object_where_a_folder_is_and_below_an_object_is_refused(
    bucket: LocalBucket, root: Path
) -> None:
    bucket.put("folder/object", b"")
    for key in ("folder", "folder/object/below", "folder/object/b/c"):
        for request in (
            bucket.put,
            bucket.put_if_absent,
            lambda key, _: bucket.writer(key).close(),
        ):
            with pytest.raises(Invalid, match="cannot be an object"):
                request(key, b"x")
    bucket.delete(["folder", "folder/object/below"])
    assert files(root) == ["folder/object"]


def test_a_name_too_long_for_the_file_system_is_refused(bucket: LocalBucket) -> None:
    with pytest.raises(Invalid, match="too long"):
        bucket.put("a" * 300, b"")


def test_folders_go_with_their_last_object_but_the_root_stays(
    bucket: LocalBucket, root: Path
) -> None:
    bucket.put("a/b/c", b"")
    bucket.put("a/d", b"")
    bucket.delete(["a/b/c"])
    assert sorted(path.name for path in root.rglob("*")) == ["a", "d"]
    bucket.delete(["a/d"])
    assert list(root.iterdir()) == []


def test_an_aborted_writer_leaves_no_file(bucket: LocalBucket, root: Path) -> None:
    writer = bucket.writer("a/b")
    writer.write(b"x" * 1_000_000)
    writer.abort()
    assert files(root) == []


def test_a_forgotten_writer_leaves_no_file(bucket: LocalBucket, root: Path) -> None:
    writer = bucket.writer("a/b")
    writer.write(b"x" * 1_000_000)
    del writer
    assert files(root) == []


def test_a_killed_writer_leaves_nothing_at_all(root: Path) -> None:
    program = (
        "import os, signal, sys; from blockstore.bucket.local import LocalBucket; "
        "from blockstore.clock import SystemClock; "
        "writer = LocalBucket(sys.argv[1], SystemClock()).writer('block/chunks/1'); "
        "writer.write(b'x' * 1_000_000); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(root)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert files(root) == []


def test_debris_of_a_day_goes_with_its_folder_and_fresh_debris_stays(
    bucket: LocalBucket, root: Path
) -> None:
    for folder, age_s in (("old", 25 * 3600), ("new", 60)):
        bucket.put(f"{folder}/a", b"")
        hidden = root / folder / f"{HIDDEN}1.2.3"
        hidden.write_bytes(b"")
        then = hidden.stat().st_mtime - age_s
        os.utime(hidden, (then, then))
        bucket.delete([f"{folder}/a"])
    assert files(root) == [f"new/{HIDDEN}1.2.3"]
    assert not (root / "old").exists()


def test_a_name_that_a_dead_process_left_is_stepped_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = LocalBucket(root, SystemClock())
    bucket.put("a", b"old")
    names = iter(["taken", "taken", "free"])
    monkeypatch.setattr(local_files, "_hidden_name", lambda: HIDDEN + next(names))
    (root / f"{HIDDEN}taken").write_bytes(b"")
    bucket.put("a", b"new")
    assert bucket.get("a").data == b"new"
    assert files(root) == [f"{HIDDEN}taken", "a"]


TRY_TO_LOCK = """
import fcntl, os, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
try:
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""


def test_the_lock_of_a_compare_and_set_is_the_same_by_whatever_root(root: Path) -> None:
    """A lake and a table in it are two buckets on the same files."""
    table, lake = LocalBucket(root, SystemClock()), LocalBucket(root.parent, SystemClock())
    table.put("gc/boundary", b"0")
    with local_files.locked_folder(str(root / "gc")):
        waiting = subprocess.Popen([sys.executable, "-c", TRY_TO_LOCK, str(root / "gc")])
        assert waiting.wait() == 7
    lake.put_if_match("table/gc/boundary", b"1", table.get("gc/boundary").etag)
    assert table.get("gc/boundary").data == b"1"


def test_in_a_world_with_another_clock_objects_carry_its_time(root: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    bucket = LocalBucket(root, clock)
    bucket.put("a", b"")
    clock.advance(90)
    writer = bucket.writer("b")
    writer.close()
    bucket.put_if_match("a", b"1", bucket.get("a").etag)
    bucket.put_if_absent("c", b"")
    clock.advance(10)
    assert {
        info.key: bucket.now_ms() - info.modified_ms for info in bucket.list()
    } == dict.fromkeys("abc", 10_000)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were put on disk, in order; a file without a name is shown as ``file``."""
    paths: list[str] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        paths.append(path if os.path.isdir(path) else "file")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_the_tests_here_wait_for_the_disk() -> None:
    assert os.fsync is REAL


def test_a_durable_write_syncs_its_data_then_every_name_above_it(
    root: Path, synced: list[str]
) -> None:
    LocalBucket(root, SystemClock()).put("block/chunks/1", b"x")
    made = [str(root.parent.parent), str(root.parent)]
    assert synced == [*made, "file", f"{root}/block/chunks", f"{root}/block", str(root)]


def test_a_durable_write_into_a_known_folder_syncs_only_that(root: Path, synced: list[str]) -> None:
    bucket = LocalBucket(root, SystemClock())
    bucket.put("index/1", b"x")
    synced.clear()
    bucket.put_if_absent("index/2", b"x")
    assert synced == ["file", f"{root}/index"]
    (root / "index/1").unlink()
    (root / "index/2").unlink()
    (root / "index").rename(root / "moved")
    (root / "index").mkdir()
    synced.clear()
    bucket.put_if_absent("index/3", b"x")
    assert synced == ["file", f"{root}/index", str(root)]


def test_a_durable_delete_is_on_disk_before_the_next_folders_turn(
    root: Path, synced: list[str]
) -> None:
    bucket = LocalBucket(root, SystemClock())
    for key in ("b/meta", "b/mark", "b/chunks/1", "b/chunks/2"):
        bucket.put(key, b"x")
    synced.clear()
    bucket.delete(["b/meta", "b/chunks/1", "b/chunks/2", "b/mark"])
    # The emptied chunks folder goes, so its parent holds the effect; then b itself goes, and the
    # root holds it.
    assert synced == [f"{root}/b", f"{root}/b", str(root)]


def test_scratch_writes_sync_nothing(root: Path, synced: list[str]) -> None:
    bucket = LocalBucket(root, SystemClock(), durable=False)
    bucket.put("a/b", b"x")
    bucket.put_if_match("a/b", b"y", bucket.put("a/b", b"z"))
    bucket.writer("a/c").close()
    bucket.delete(["a/b"])
    assert synced == []
    assert bucket.url.endswith("/lake/table?durable=false")


def failing(error: int, times: int = 10**9) -> Callable[..., int]:
    """A system call that fails with ``error`` for the first ``times`` calls."""
    left = [times]
    write = os.pwrite

    def call(*arguments: object) -> int:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(error, os.strerror(error))
        return write(*arguments)  # type: ignore[arg-type]

    return call


def test_a_full_disk_is_no_space_and_nothing_becomes_visible(
    bucket: LocalBucket, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = bucket.put("kept", b"old")
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    writer = bucket.writer("a/b")
    for request in (
        lambda: bucket.put("kept", b"new"),
        lambda: bucket.put_if_absent("new", b"new"),
        lambda: bucket.put_if_match("kept", b"new", etag),
        lambda: writer.write(b"x" * 1_000_000),
        writer.close,
    ):
        with pytest.raises(NoSpace, match="free some"):
            request()
    writer.abort()
    assert files(root) == ["kept"]
    assert bucket.get("kept").data == b"old"


def test_a_writer_goes_on_once_there_is_space_again(
    bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = bucket.writer("a/b")
    writer.write(b"small")
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC, times=2))
    large = bytearray(b"x" * 1_000_000)
    with pytest.raises(NoSpace):
        writer.write(memoryview(large))
    large[:] = b"y" * len(large)
    with pytest.raises(NoSpace):
        writer.write(b"")
    writer.write(b"end")
    writer.close()
    assert bucket.get("a/b").data == b"small" + b"x" * 1_000_000 + b"end"


def test_a_write_cut_short_by_the_system_is_completed(
    bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    bucket.put("a", b"0123456789")
    assert bucket.get("a").data == b"0123456789"


def test_a_name_that_the_disk_did_not_confirm_is_unanswered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = LocalBucket(root, SystemClock())
    bucket.put("a/1", b"x")
    fsync = os.fsync

    def sync_of_a_folder_fails(fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, "Input/output error")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", sync_of_a_folder_fails)
    with pytest.raises(Unanswered, match="did not confirm"):
        bucket.put_if_absent("a/2", b"x")
    writer = bucket.writer("a/3")
    with pytest.raises(Unanswered):
        writer.close()
    monkeypatch.setattr(os, "fsync", fsync)
    writer.close()
    assert keys(bucket) == ["a/1", "a/2", "a/3"]


def test_data_that_the_disk_did_not_take_is_unavailable_and_invisible(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = LocalBucket(root, SystemClock())

    def sync_fails(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", sync_fails)
    root.mkdir(parents=True)
    with pytest.raises(Unavailable, match="could not be read or written"):
        bucket.put_if_absent("a", b"x")
    assert files(root) == []


@pytest.fixture
def passable() -> Iterator[Path]:
    """A root below folders that every user may pass.

    Those of ``tmp_path`` are closed to others, and all workers of a run share them: a test that
    opened them for a while would close them under another one.
    """
    with tempfile.TemporaryDirectory() as own:
        Path(own).chmod(0o711)
        yield Path(own) / "table"


def test_no_permission_is_access_denied(passable: Path) -> None:
    root = passable
    bucket = LocalBucket(root, SystemClock())
    bucket.put("a/b", b"x")
    root.chmod(0o500)
    with closed(root / "a"):
        held = without_privileges(
            root, lambda: all(denied(request) for request in requests_of(bucket))
        )
    root.chmod(0o700)
    assert held


def test_a_folder_that_may_not_be_looked_into_takes_none_of_its_neighbours_away(
    passable: Path,
) -> None:
    """As ``lost+found`` in the root of a disk, for users other than the superuser."""
    root = passable
    bucket = LocalBucket(root, SystemClock())
    for name in ("a", "b", "c"):
        bucket.put(f"{name}/x", b"x")
    with closed(root / "b"):
        listed = without_privileges(root, lambda: [*bucket.prefixes()] == ["a/", "b/", "c/"])
        whole = without_privileges(root, lambda: denied(lambda: [*bucket.list()]))
    assert (listed, whole) == (True, True)


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Only the superuser may read it."""
    folder.chmod(0o000)
    yield
    folder.chmod(0o700)


def without_privileges(root: Path, act: Callable[[], bool]) -> bool:
    """Return the result of ``act`` in a child that may do only what the files' modes allow.

    The superuser may do everything.
    """
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            for path in (root, *root.iterdir()):
                os.chown(path, 65534, 65534)
            os.setuid(65534)
        status = 1
        try:
            status = 0 if act() else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def requests_of(bucket: LocalBucket) -> list[Callable[[], object]]:
    return [
        lambda: bucket.get("a/b"),
        lambda: bucket.head("a/b"),
        lambda: bucket.put("new", b""),
        lambda: bucket.put_if_absent("new/below", b""),
        lambda: bucket.put_if_match("a/b", b"", "0"),
        lambda: bucket.writer("new"),
        lambda: bucket.delete(["a/b"]),
        lambda: list(bucket.list()),
        lambda: list(bucket.list("a/", recursive=False)),
        lambda: list(bucket.prefixes("a/")),
    ]


def denied(request: Callable[[], object]) -> bool:
    try:
        request()
    except AccessDenied as error:
        return "grant" in str(error)
    return False


def test_backslashes_and_line_ends_in_names_are_characters_like_others(bucket: LocalBucket) -> None:
    for key in ("a\\b/c", "line\nend", "tab\tname"):
        bucket.put(key, key.encode())
        assert bucket.get(key).data == key.encode()
    assert keys(bucket) == ["a\\b/c", "line\nend", "tab\tname"]


def test_an_object_that_vanishes_during_a_listing_is_not_shown(
    bucket: LocalBucket, root: Path
) -> None:
    for key in ("a/1", "a/2", "b/1"):
        bucket.put(key, b"")
    listing = bucket.list()
    assert next(listing).key == "a/1"
    bucket.delete(["a/2", "b/1"])
    assert list(listing) == []


def test_a_flat_listing_looks_only_at_what_it_shows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = LocalBucket(root, SystemClock(), durable=False)
    for number in range(200):
        bucket.put(f"index/{number:04d}", b"")
    looked: list[str] = []
    lstat = os.lstat
    monkeypatch.setattr(
        os, "lstat", lambda path, **at: looked.append(str(path)) or lstat(path, **at)
    )
    found = [info.key for info in bucket.list("index/", start_after="index/0197", recursive=False)]
    assert found == ["index/0198", "index/0199"]
    assert [path for path in looked if "/index/0" in path] == [
        f"{root}/index/0198",
        f"{root}/index/0199",
    ]


def test_a_listing_enters_only_folders_that_can_hold_a_hit(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = LocalBucket(root, SystemClock(), durable=False)
    for number in range(20):
        bucket.put(f"block{number:02d}/chunks/1", b"")
    entered: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: entered.append(str(path)) or scandir(path))
    assert len(list(bucket.list("block07/"))) == 1
    assert entered == [f"{root}/block07", f"{root}/block07/chunks"]
    entered.clear()
    assert len(list(bucket.list(start_after="block18/z"))) == 1
    assert entered == [str(root), f"{root}/block18", f"{root}/block19", f"{root}/block19/chunks"]


def test_a_folder_that_goes_while_a_file_is_made_in_it_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 raises EPERM, then ENOENT, for a folder that is removed at this moment."""
    bucket = LocalBucket(root, SystemClock())
    bucket.put("a/1", b"")
    opened = os.open
    raised = iter([errno.EPERM, errno.ENOENT])

    def folder_is_going(path: str, flags: int, *rest: int, **at: int) -> int:
        if flags & os.O_WRONLY and (number := next(raised, 0)):
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *rest, **at)

    monkeypatch.setattr(os, "open", folder_is_going)
    bucket.put("a/2", b"x")
    assert next(raised, 0) == 0
    assert files(root) == ["a/1", "a/2"]


@pytest.mark.parametrize("root", ["/proc/x", "/proc/x/y", "/proc"])
def test_a_place_that_takes_no_folders_is_refused_at_once(root: str) -> None:
    bucket = LocalBucket(root, SystemClock())
    with pytest.raises(AccessDenied, match="a folder cannot be made there"):
        bucket.put_if_absent("a/b", b"x")


class OfAnotherMachine(SystemClock):
    """A machine's own clock that is wrong, while the file system's is right."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_ms = round(ahead_s * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


WRITES: dict[str, Callable[[LocalBucket], object]] = {
    "put": lambda bucket: bucket.put("block/meta.json", b"newer"),
    "put_if_absent": lambda bucket: bucket.put_if_absent("block/other.json", b"newer"),
    "put_if_match": lambda bucket: bucket.put_if_match(
        "block/meta.json", b"newer", bucket.get("block/meta.json").etag
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_object_is_as_old_as_its_name_and_not_as_its_bytes(
    bucket: LocalBucket, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """The writer stops for ten hours between the bytes and the name."""
    bucket.put("block/meta.json", b"old")
    before = {info.key: info for info in bucket.list()}
    for step in ("link", "replace"):
        name = getattr(local_files.NewFile, step)

        def late(self: local_files.NewFile, *to: object, name: Callable[..., None] = name) -> None:
            long_ago_s = os.fstat(self.fd).st_mtime - 36_000
            os.utime(self.fd, (long_ago_s, long_ago_s))
            name(self, *to)

        monkeypatch.setattr(local_files.NewFile, step, late)
    from_ms = bucket.now_ms()
    WRITES[write](bucket)
    [info] = [info for info in bucket.list() if info != before.get(info.key)]
    assert info.modified_ms >= from_ms
    assert bucket.head(info.key) == info
    assert [one for one in bucket.list("block/", recursive=False) if one.key == info.key] == [info]


@pytest.mark.parametrize("ahead_s", [-40 * 86_400, 40 * 86_400])
def test_now_is_the_file_systems_time_whatever_the_machines_clock_says(
    bucket: LocalBucket, root: Path, ahead_s: float
) -> None:
    bucket.put("a", b"")
    there = LocalBucket(root, OfAnotherMachine(ahead_s))
    before_ms = bucket.head("a").modified_ms
    now_ms = there.now_ms()
    bucket.put("b", b"")
    assert before_ms <= now_ms <= bucket.head("b").modified_ms
    assert files(root) == ["a", "b"]


def test_who_cannot_write_there_takes_the_machines_time_and_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = OfAnotherMachine(1000)
    bucket = LocalBucket(root, clock)
    before_ms = clock.now_ms()
    assert before_ms <= bucket.now_ms() <= clock.now_ms()
    assert not root.exists()
    bucket.put("a", b"")
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    assert before_ms <= bucket.now_ms() <= clock.now_ms()
    assert files(root) == ["a"]
