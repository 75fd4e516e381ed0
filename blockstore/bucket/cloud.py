"""A bucket through obstore: Google Cloud Storage, Azure Blob Storage, and S3 on request.

Rules:
- Each request is sent once (``cloud_stores.py``); its response is classified in ``cloud_errors.py``
  and nowhere else.
- What a compare-and-set compares is the store's own: an ETag on S3 (unquoted: some stores compare
  the quotes too) and Azure (quoted), the object's generation on Google (kept behind its ETag,
  ``etag@generation``; a listing shows none).
- A create that obstore reports as lost without a 412 may have been a 409. A HEAD then decides: a
  taken key is AlreadyExists, a free one Contended.
- obstore lists prefixes of complete path parts; the rest of a prefix is filtered here. It shows the
  key ``a/`` (a folder marker of a console) as ``a``: a HEAD decides what has size 0. Deletes go one
  by one, in order (R7).
- ``now_ms`` is the time of the endpoint (``cloud_clock.py``). A store that is handed in has none:
  its time is ours.

``cloud_stores.py`` says which processes may share a value of this class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import IO, Any

from blockstore.bucket.api import Bucket, NotModified, Object, ObjectInfo, is_there
from blockstore.bucket.cloud_clock import EndpointClock
from blockstore.bucket.cloud_stores import Kind, endpoint, mark_used, require_obstore, shared_store
from blockstore.bucket.keys import check_key, check_prefix, skippable
from blockstore.bucket.ranges import FoundRange, checked_range, range_of_all
from blockstore.bucket.traffic.spare import Spare
from blockstore.clock import Clock
from blockstore.errors import (
    AlreadyExists,
    BlockstoreError,
    Contended,
    ObjectMissing,
    PreconditionFailed,
)

require_obstore()

import obstore  # noqa: E402
from obstore.exceptions import NotModifiedError, PreconditionError  # noqa: E402

from blockstore.bucket.cloud_errors import (  # noqa: E402
    FAILURES,
    classify,
    is_complete_object,
    is_past_the_end,
    status_and_code,
)
from blockstore.bucket.cloud_writer import PART_BYTES, CloudWriter  # noqa: E402

_PAGE = 1000
_IN_FLIGHT = 4
"""Parts of one object that are sent at once."""


class CloudBucket(Bucket):
    """The bucket (or container) ``name`` of a kind of store.

    ``store`` makes obstore's store, at first use in a process; by default the one that the
    environment configures. A thread of ``spare`` requests the store's time ahead of need.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        clock: Clock,
        *,
        store: Callable[[], Any] | None = None,
        spare: Spare | None = None,
    ) -> None:
        self.url = f"{kind}://{name}" + ("?client=obstore" if kind is Kind.S3 else "")
        self._kind = kind
        self._name = name
        self._clock = clock
        self._make = store or (lambda: shared_store(kind, name))
        self._store_clock = (
            EndpointClock(lambda: endpoint(kind), self.url, clock, spare) if store is None else None
        )
        self._opened: tuple[int, Any] | None = None

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        options: Any = (
            {} if if_none_match is None else {"if_none_match": self._condition(if_none_match)}
        )
        try:
            response = obstore.get(self._store(), check_key(key), options=options)
            etag = self._etag(response.meta)
            if etag == if_none_match:
                raise NotModified(key)
            return Object(data=bytes(response.bytes()), etag=etag or "")
        except NotModifiedError:
            raise NotModified(key) from None
        except FAILURES as error:
            raise self.error(error, key, write=False) from error

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if length <= 0:
            self.head(key)
            return b""
        options: Any = {"range": (start, start + length)}
        try:
            response = obstore.get(self._store(), check_key(key), options=options)
            first, stop = response.range
            found = FoundRange(start=first, stop=stop, size=response.meta["size"])
            return checked_range(bytes(response.bytes()), found, start, length, self._at(key))
        except FAILURES as error:
            if is_past_the_end(error):
                return b""
            if is_complete_object(error):
                return range_of_all(self.get(key).data, start, length, self._at(""))
            raise self.error(error, key, write=False) from error

    def head(self, key: str) -> ObjectInfo:
        try:
            return self._info(obstore.head(self._store(), check_key(key)), key)
        except FAILURES as error:
            raise self.error(error, key, write=False) from error

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        if start_after > prefix and not start_after.startswith(prefix):
            return iter(())
        return islice(self._list(prefix, start_after, recursive, at_most), at_most)

    def prefixes(self, prefix: str = "") -> Iterator[str]:
        check_prefix(prefix)
        return iter([found for found in self._level(prefix)[1] if found.startswith(prefix)])

    def now_ms(self) -> int:
        return self._clock.now_ms() if self._store_clock is None else self._store_clock.now_ms()

    def put(self, key: str, data: bytes) -> str:
        return self._put(key, data, None)

    def put_if_absent(self, key: str, data: bytes) -> str:
        try:
            return self._put(key, data, "create")
        except (Contended, PreconditionFailed) as error:
            if _is_412(error.__cause__) or is_there(self, key):
                raise AlreadyExists(f"the object {self._at(key)} exists already") from None
            raise

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        try:
            return self._put(key, data, self._version(etag))
        except (ObjectMissing, PreconditionFailed) as error:
            found = "is missing" if isinstance(error, ObjectMissing) else "has changed"
            raise PreconditionFailed(
                f"the object {self._at(key)} was not replaced: it {found}, expected ETag {etag}; "
                "read it again"
            ) from None

    def writer(self, key: str) -> CloudWriter:
        place = f"{self.url}/{check_key(key)}"
        return CloudWriter(place, partial(self.put, key), partial(self._put_parts, key))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                obstore.delete(self._store(), check_key(key))
            except FAILURES as error:
                typed = self.error(error, key, write=True)
                if not isinstance(typed, ObjectMissing):
                    raise typed from error

    def error(self, error: Exception, key: str, *, write: bool) -> BlockstoreError:
        """Return the typed error of a failed request for ``key``."""
        return classify(error, self._at(key), self._name, write=write)

    def _put(self, key: str, data: bytes, mode: Any) -> str:
        if self._store_clock is not None:
            self._store_clock.soon()
        try:
            response = obstore.put(
                self._store(), check_key(key), bytes(data), mode=mode, use_multipart=False
            )
        except FAILURES as error:
            raise self.error(error, key, write=True) from error
        return self._etag(response) or ""

    def _put_parts(self, key: str, file: IO[bytes]) -> None:
        """Create or replace with the content of a file, part by part."""
        try:
            obstore.put(
                self._store(),
                check_key(key),
                file,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_IN_FLIGHT,
            )
        except FAILURES as error:
            raise self.error(error, key, write=True) from error

    def _list(
        self, prefix: str, start_after: str, recursive: bool, at_most: int | None
    ) -> Iterator[ObjectInfo]:
        folder = prefix[: prefix.rfind("/") + 1]
        if recursive and folder == prefix:
            found: Iterator[Any] = self._below(folder, skippable(prefix, start_after))
        elif recursive:
            found = self._below_partly(prefix)
        elif start_after > prefix or at_most is not None:
            # obstore's flat listing can neither skip nor end early; here it would list all old
            # entries of the index.
            found = self._below(folder, skippable(prefix, start_after))
        else:
            found = iter(self._level(prefix)[0])
        for meta in found:
            key = meta["path"]
            flat = recursive or "/" not in key[len(prefix) :]
            if key.startswith(prefix) and key > start_after and flat:
                info = self._info(meta, key)
                if info.size or self._is_empty_object(key):
                    yield info

    def _is_empty_object(self, key: str) -> bool:
        """Whether an object of size 0 in a listing has this key, and not the key with a slash."""
        try:
            return self.head(key).size == 0
        except ObjectMissing:
            return False

    def _below(self, folder: str, skipped: str) -> Iterator[Any]:
        """Yield everything below a folder.

        obstore drops a slash at the end of an offset, and a folder's name would skip too much.
        """
        offset = skipped if skipped and not skipped.endswith("/") else None
        try:
            pages = obstore.list(
                self._store(), folder.rstrip("/") or None, offset=offset, chunk_size=_PAGE
            )
            for page in pages:
                yield from page
        except FAILURES as error:
            raise self.error(error, folder, write=False) from error

    def _below_partly(self, prefix: str) -> Iterator[Any]:
        """Yield everything whose key starts with a prefix that ends within a path part."""
        objects, folders = self._level(prefix)
        yield from objects
        for folder in folders:
            if folder.startswith(prefix):
                yield from self._below(folder, "")

    def _level(self, prefix: str) -> tuple[Sequence[Any], Sequence[str]]:
        """Return the objects and the folders of the folder in which a prefix ends."""
        folder = prefix[: prefix.rfind("/") + 1]
        try:
            found = obstore.list_with_delimiter(self._store(), folder.rstrip("/") or None)
        except FAILURES as error:
            raise self.error(error, prefix, write=False) from error
        return [*found["objects"]], [f"{name}/" for name in found["common_prefixes"]]

    def _store(self) -> Any:
        mark_used()
        pid = os.getpid()
        if self._opened is None or self._opened[0] != pid:
            try:
                self._opened = (pid, self._make())
            except FAILURES as error:
                raise self.error(error, "", write=False) from error
        return self._opened[1]

    def _condition(self, etag: str) -> str:
        """Return the header of a condition on an ETag."""
        plain = etag.rpartition("@")[0] if self._kind is Kind.GS else etag
        return plain if self._kind is Kind.S3 else f'"{plain}"'

    def _version(self, etag: str) -> Mapping[str, str]:
        """Return what a compare-and-set compares."""
        return {"e_tag": self._condition(etag), "version": etag.rpartition("@")[2]}

    def _etag(self, meta: Any) -> str | None:
        etag, generation = meta.get("e_tag"), meta.get("version")
        if etag is None or (self._kind is Kind.GS and generation is None):
            return None
        plain = str(etag).strip('"')
        return f"{plain}@{generation}" if self._kind is Kind.GS else plain

    def _info(self, meta: Any, key: str) -> ObjectInfo:
        return ObjectInfo(
            key=key,
            size=meta["size"],
            modified_ms=round(meta["last_modified"].timestamp() * 1000),
            etag=self._etag(meta),
        )

    def _at(self, key: str) -> str:
        return f"{self._kind}://{self._name}/{key}".rstrip("/")


def _is_412(error: BaseException | None) -> bool:
    return error is not None and (
        status_and_code(error)[0] == 412 or isinstance(error, PreconditionError)
    )
