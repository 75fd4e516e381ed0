"""A folder as a bucket: the embedded default, durable unless ``?durable=false``.

Rules:
- An object appears complete: a file gets its name once it is complete, by an atomic link
  (``local_files.py``).
- ``put_if_absent`` is that link: exactly one of any number of processes succeeds.
- ``put_if_match`` compares content, never times, under the folder's lock, which replacing and
  deleting take as well.
- Durable means: when a write returns, its data and all names above it are on disk; what was deleted
  in one folder is gone from disk before anything in the next folder is (R7 relies on the order).
- Folders are not objects: they come with their first object and go with their last.
- No symbolic link is followed below the root.
- An object's time is the later of ``mtime`` and ``ctime``: when its name was given, however old the
  bytes are. A change of the file's attributes (``chmod``, a hard link) renews it, so its age starts
  again.
- "Now" is the file system's own time, because those times are compared with it: the server of a
  network file system has another clock than this machine.

In a world whose clock is not the machine's, objects are stamped with that clock, so that ages mean
the same everywhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from blockstore.bucket.api import Bucket, NotModified, Object, ObjectInfo
from blockstore.bucket.keys import check_prefix, content_etag
from blockstore.bucket.local_errors import classified_write, classify, classify_write
from blockstore.bucket.local_files import NewFile, locked_folder
from blockstore.bucket.local_listing import list_deep, list_flat, list_folders
from blockstore.bucket.local_tree import Tree
from blockstore.clock import Clock
from blockstore.errors import AlreadyExists, Invalid, ObjectMissing, PreconditionFailed

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GATHERED_BYTES = 1 << 18


class LocalBucket(Bucket):
    """The files below ``path``; the folder itself is made by the first write."""

    def __init__(self, path: str | os.PathLike[str], clock: Clock, durable: bool = True) -> None:
        root = os.path.abspath(path)
        try:
            os.fsencode(root)
        except UnicodeEncodeError:
            raise Invalid(
                f"{root!r} is refused: it has half of a surrogate pair, which no path can have"
            ) from None
        if root == "/" or (os.path.exists(root) and not os.path.isdir(root)):
            what = "the root of the file system" if root == "/" else "a file"
            raise Invalid(
                f"{root} is {what}, expected a folder for tables, which need not exist yet"
            )
        self.url = Path(root).as_uri() + ("" if durable else "?durable=false")
        self._tree = Tree(root, clock, durable=durable)

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        data = _read(self._tree.path(key))
        etag = content_etag(data)
        if etag == if_none_match:
            raise NotModified(key)
        return Object(data=data, etag=etag)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return _read(self._tree.path(key), start, length)

    def head(self, key: str) -> ObjectInfo:
        path = self._tree.path(key)
        try:
            found = os.lstat(path)
        except OSError as error:
            raise classify(error, path) from None
        if not stat.S_ISREG(found.st_mode):
            raise ObjectMissing(f"there is no object {path}")
        return ObjectInfo(key=key, size=found.st_size, modified_ms=self._tree.modified_ms(found))

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        self._check_prefix(prefix)
        listing = list_deep if recursive else list_flat
        found = listing(self._tree.root, prefix, start_after, self._tree.modified_ms)
        return islice(found, at_most)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        self._check_prefix(prefix)
        return list_folders(self._tree.root, prefix)

    def now_ms(self) -> int:
        return self._tree.now_ms()

    def path_of(self, key: str) -> str | None:
        return self._tree.path(key)

    def put(self, key: str, data: bytes) -> str:
        path = self._tree.path(key)
        file = self._filled(path, data)
        try:
            self._tree.put(file, path)
        finally:
            file.close()
        return content_etag(data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        path = self._tree.path(key)
        file = self._filled(path, data)
        try:
            self._tree.add(file, path)
        except FileExistsError as error:
            if os.path.isdir(path):
                raise classify_write(error, path) from None
            raise AlreadyExists(f"the object {path} exists already") from None
        finally:
            file.close()
        return content_etag(data)

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        path = self._tree.path(key)
        folder, _, name = path.rpartition("/")
        try:
            with locked_folder(folder) as folder_fd:
                found = content_etag(_read(path, name=name, folder_fd=folder_fd))
                if found != etag:
                    raise PreconditionFailed(
                        f"the object {path} was not replaced: its ETag is {found}, expected "
                        f"{etag}; read it again"
                    )
                file = self._filled(path, data)
                try:
                    self._tree.replace_locked(file, path, folder_fd)
                finally:
                    file.close()
        except (FileNotFoundError, NotADirectoryError, ObjectMissing):
            raise PreconditionFailed(
                f"the object {path} was not replaced: it is missing, expected ETag {etag}; read it "
                "again"
            ) from None
        except OSError as error:
            raise classify_write(error, path) from error
        return content_etag(data)

    def writer(self, key: str) -> LocalWriter:
        return LocalWriter(self._tree, self._tree.path(key))

    def delete(self, keys: Iterable[str]) -> None:
        self._tree.remove([self._tree.path(key) for key in keys])

    def refuses_stale_writes(self) -> bool | None:
        return True

    def keeps_versions(self) -> bool | None:
        return False

    def _check_prefix(self, prefix: str) -> None:
        """Raise Invalid for a prefix that no key can have, or whose folder is behind a symbolic
        link."""
        slash = check_prefix(prefix).rfind("/")
        if slash > 0:
            self._tree.path(f"{prefix[:slash]}/-")

    def _filled(self, path: str, data: bytes) -> NewFile:
        file = self._tree.new_file(path)
        try:
            file.write(data)
        except OSError as error:
            file.close()
            raise classify_write(error, path) from error
        return file


class LocalWriter:
    """Writes the object at ``path``: small pieces are gathered, large ones go straight to the file.

    The file gets its name when it is closed; nothing is left of it otherwise.
    """

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        self._file = tree.new_file(path)
        self._pieces: list[bytes | memoryview] = []
        self._gathered = 0
        self._closed = False

    def write(self, data: bytes | memoryview, /) -> int:
        assert not self._closed, "write after close or abort"
        view = memoryview(data)
        size = view.nbytes
        self._gathered += size
        if self._gathered < _GATHERED_BYTES:
            self._pieces.append(bytes(data))
            return size
        self._pieces.append(data if isinstance(data, bytes) else view.cast("B"))
        try:
            self._flush()
        except BaseException:
            # The caller may change its memory: keep a copy, so that the same bytes are sent again.
            self._pieces = [bytes(piece) for piece in self._pieces]
            raise
        return size

    def close(self) -> None:
        if self._closed:
            return
        self._flush()
        self._tree.put(self._file, self._path)
        self._file.close()
        self._closed = True

    def abort(self) -> None:
        self._closed = True
        self._pieces.clear()
        # A file server may report only now that its disk is full.
        with suppress(OSError):
            self._file.close()

    def _flush(self) -> None:
        with classified_write(self._path):
            if len(self._pieces) > 1:
                small = b"".join(self._pieces[:-1])
                self._file.write(small)
                del self._pieces[:-1]
            if self._pieces:
                self._file.write(self._pieces[0])
        self._pieces.clear()
        self._gathered = 0


def _read(
    path: str,
    start: int = 0,
    length: int | None = None,
    *,
    name: str | None = None,
    folder_fd: int | None = None,
) -> bytes:
    """Return the bytes of a file, or a range of them; by ``name`` in ``folder_fd`` if given."""
    try:
        fd = os.open(path if name is None else name, _READ, dir_fd=folder_fd)
    except OSError as error:
        raise classify(error, path) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ObjectMissing(f"there is no object {path}")
        left = found.st_size - start
        if length is not None:
            left = min(left, length)
        if left <= 0:
            return b""
        data = os.pread(fd, left, start)
        if len(data) == left:
            return data
        pieces = [data]
        while data and (left := left - len(data)) > 0:
            start += len(data)
            data = os.pread(fd, left, start)
            pieces.append(data)
        return b"".join(pieces)
    except OSError as error:
        raise classify(error, path) from error
    finally:
        os.close(fd)
