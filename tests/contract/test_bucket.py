"""The promises of ``blockstore/bucket/api.py``, held against every bucket and every wrapper."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket import Bucket, NotModified, read_file
from blockstore.errors import AlreadyExists, Invalid, ObjectMissing, PreconditionFailed

ODD_NAMES = [
    "with space",
    "percent%20sign%",
    "plus+and&equals=",
    "question?mark#hash",
    "quote'\"`",
    "colon:semi;comma,",
    "brackets[]{}()<>",
    "tilde~at@dollar$",
    "star*pipe|caret^",
    "ünïcödé-名前-🧱",
    ".hidden",
    "..two-dots",
    "...",
    "trailing.",
    " leading",
]


def keys(
    bucket: Bucket, prefix: str = "", *, start_after: str = "", recursive: bool = True
) -> list[str]:
    return sorted(
        info.key for info in bucket.list(prefix, start_after=start_after, recursive=recursive)
    )


def test_a_put_is_read_back_at_once(bucket: Bucket) -> None:
    etag = bucket.put("a/b", b"one")
    found = bucket.get("a/b")
    assert (found.data, found.etag) == (b"one", etag)


def test_a_put_replaces(bucket: Bucket) -> None:
    first = bucket.put("a", b"one")
    second = bucket.put("a", b"two")
    assert first != second
    assert (bucket.get("a").data, bucket.get("a").etag) == (b"two", second)


def test_an_etag_is_unquoted(bucket: Bucket) -> None:
    assert '"' not in bucket.put("a", b"one") + bucket.get("a").etag


def test_an_empty_object_is_an_object(bucket: Bucket) -> None:
    etag = bucket.put("empty", b"")
    assert bucket.get("empty").data == b""
    assert bucket.get("empty").etag == etag
    assert bucket.head("empty").size == 0
    assert bucket.get_range("empty", 0, 10) == b""
    assert keys(bucket) == ["empty"]


def test_a_missing_object_is_missing_whatever_is_asked(bucket: Bucket) -> None:
    bucket.put("folder/object", b"x")
    for key in ("no", "no/such", "folder", "folder/object/below"):
        with pytest.raises(ObjectMissing):
            bucket.get(key)
        with pytest.raises(ObjectMissing):
            bucket.get(key, if_none_match="0" * 32)
        with pytest.raises(ObjectMissing):
            bucket.get_range(key, 0, 1)
        with pytest.raises(ObjectMissing):
            bucket.head(key)


def test_a_get_of_the_known_etag_is_not_modified(bucket: Bucket) -> None:
    etag = bucket.put("a", b"one")
    with pytest.raises(NotModified):
        bucket.get("a", if_none_match=etag)
    bucket.put("a", b"two")
    assert bucket.get("a", if_none_match=etag).data == b"two"


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 4, b"0123"),
        (3, 4, b"3456"),
        (8, 2, b"89"),
        (8, 3, b"89"),
        (0, 1000, b"0123456789"),
        (10, 1, b""),
        (99, 5, b""),
        (4, 0, b""),
    ],
)
def test_a_range_answers_what_there_is(
    bucket: Bucket, start: int, length: int, expected: bytes
) -> None:
    bucket.put("digits", b"0123456789")
    assert bucket.get_range("digits", start, length) == expected


def test_head_and_listing_say_size_time_and_etag(bucket: Bucket) -> None:
    before = bucket.now_ms()
    etag = bucket.put("a/b", b"four")
    after = bucket.now_ms()
    (listed,) = bucket.list("a/")
    for info in (bucket.head("a/b"), listed):
        assert (info.key, info.size) == ("a/b", 4)
        assert info.etag in {None, etag}
        # Stores keep whole seconds, and one machine's clocks tick apart.
        assert before - 2_000 <= info.modified_ms <= after + 2_000


def test_a_create_needs_the_key_to_be_absent(bucket: Bucket) -> None:
    etag = bucket.put_if_absent("a/1", b"mine")
    with pytest.raises(AlreadyExists):
        bucket.put_if_absent("a/1", b"other")
    assert (bucket.get("a/1").data, bucket.get("a/1").etag) == (b"mine", etag)
    bucket.delete(["a/1"])
    bucket.put_if_absent("a/1", b"again")
    assert bucket.get("a/1").data == b"again"


def test_a_create_finds_what_a_put_and_a_writer_made(bucket: Bucket) -> None:
    bucket.put("put", b"x")
    writer = bucket.writer("written")
    writer.write(b"x")
    writer.close()
    for key in ("put", "written"):
        with pytest.raises(AlreadyExists):
            bucket.put_if_absent(key, b"y")


def test_a_compare_and_set_needs_the_etag_of_the_content(bucket: Bucket) -> None:
    first = bucket.put_if_absent("a/counter", b"0")
    second = bucket.put_if_match("a/counter", b"1", first)
    assert (bucket.get("a/counter").data, bucket.get("a/counter").etag) == (b"1", second)
    with pytest.raises(PreconditionFailed):
        bucket.put_if_match("a/counter", b"2", first)
    assert bucket.get("a/counter").data == b"1"


def test_a_compare_and_set_of_a_missing_object_fails_and_makes_nothing(bucket: Bucket) -> None:
    etag = bucket.put("a/b", b"x")
    for key in ("a/c", "new/folder"):
        with pytest.raises(PreconditionFailed):
            bucket.put_if_match(key, b"y", etag)
    assert keys(bucket) == ["a/b"]


def test_a_listing_shows_every_put_and_no_delete_at_once(bucket: Bucket) -> None:
    for number in range(5):
        bucket.put(f"a/{number}", b"x")
        assert len(keys(bucket, "a/")) == number + 1
    for number in range(5):
        bucket.delete([f"a/{number}"])
        assert len(keys(bucket, "a/")) == 4 - number


TREE = [
    "a",
    "a-b",
    "a.b/c",
    "ab/a",
    "ab/b/c",
    "ab/b/d/e",
    "ab/c",
    "b/-",
    "b/0",
    "b/a/x",
    "c-d/e",
    "c/d",
    "é/ü",
]
"""No key is both an object and a folder of others, except by the characters below ``/``:

``c-d/`` before ``c/``.
"""


@pytest.mark.parametrize(
    "prefix", ["", "a", "ab", "ab/", "ab/b", "ab/b/", "b/", "c", "é", "é/", "none", "none/"]
)
def test_a_listing_holds_exactly_the_keys_with_its_prefix(bucket: Bucket, prefix: str) -> None:
    for key in TREE:
        bucket.put(key, b"x")
    found = [key for key in TREE if key.startswith(prefix)]
    assert keys(bucket, prefix) == found
    assert keys(bucket, prefix, recursive=False) == [
        key for key in found if "/" not in key[len(prefix) :]
    ]
    folders = {key[: key.index("/", len(prefix)) + 1] for key in found if "/" in key[len(prefix) :]}
    assert sorted(bucket.prefixes(prefix)) == sorted(folders)


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("prefix", ["", "ab/", "b/"])
def test_start_after_skips_by_utf8_bytes_whatever_the_order(
    bucket: Bucket, prefix: str, recursive: bool
) -> None:
    for key in TREE:
        bucket.put(key, b"x")
    everything = keys(bucket, prefix, recursive=recursive)
    for after in [*TREE, "ab", "ab/b", "ab/b/d", "c", "c-", "c/", "0", "zzz", "é/"]:
        expected = [key for key in everything if key.encode() > after.encode()]
        assert keys(bucket, prefix, start_after=after, recursive=recursive) == expected, after


def test_a_listing_goes_on_past_a_page_of_a_thousand(bucket: Bucket) -> None:
    for number in range(1003):
        bucket.put(f"many/{number:04d}", b"")
    expected = [f"many/{number:04d}" for number in range(1003)]
    assert keys(bucket, "many/") == expected
    assert keys(bucket, "many/", start_after="many/0001", recursive=False) == expected[2:]


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("prefix", ["", "ab/"])
def test_a_listing_that_is_cut_off_holds_so_many_and_fewer_are_all(
    bucket: Bucket, prefix: str, recursive: bool
) -> None:
    for key in TREE:
        bucket.put(key, b"x")
    everything = keys(bucket, prefix, recursive=recursive)
    for after in ["", everything[0]]:
        whole = set(keys(bucket, prefix, start_after=after, recursive=recursive))
        for at_most in range(1, len(everything) + 2):
            listed = bucket.list(prefix, start_after=after, recursive=recursive, at_most=at_most)
            found = [info.key for info in listed]
            assert len(set(found)) == len(found) == min(at_most, len(whole))
            assert whole.issuperset(found)


def test_odd_names_keep_their_characters(bucket: Bucket) -> None:
    odd = [f"odd/{name}/{name}" for name in ODD_NAMES]
    for key in odd:
        bucket.put(key, key.encode())
    assert keys(bucket, "odd/") == sorted(odd)
    assert sorted(bucket.prefixes("odd/")) == sorted(f"odd/{name}/" for name in ODD_NAMES)
    for key in odd:
        assert bucket.get(key).data == key.encode()
        assert bucket.head(key).key == key
    bucket.delete(odd)
    assert keys(bucket) == []


def test_every_method_refuses_what_is_not_a_key(bucket: Bucket) -> None:
    """One such key: ``tests/blockstore/bucket/test_keys.py`` has the others."""
    key = "a/../b"
    for request in (
        lambda: bucket.get(key),
        lambda: bucket.get_range(key, 0, 1),
        lambda: bucket.head(key),
        lambda: bucket.put(key, b"x"),
        lambda: bucket.put_if_absent(key, b"x"),
        lambda: bucket.put_if_match(key, b"x", "0"),
        lambda: bucket.writer(key),
        lambda: bucket.delete([key]),
    ):
        with pytest.raises(Invalid, match="key"):
            request()


def test_a_prefix_that_no_key_can_have_is_refused(bucket: Bucket) -> None:
    prefix = "a/../b"
    with pytest.raises(Invalid, match="key"):
        list(bucket.list(prefix))
    with pytest.raises(Invalid, match="key"):
        list(bucket.prefixes(prefix))


def test_deleting_takes_many_keys_and_missing_ones(bucket: Bucket) -> None:
    for key in ("a/1", "a/2", "b/1", "c"):
        bucket.put(key, b"x")
    bucket.delete(["a/1", "no", "no/such", "b/1", "a/2", "c/below"])
    assert keys(bucket) == ["c"]
    bucket.delete(key for key in ["c"])
    assert keys(bucket) == []
    # A store may take its time to forget a folder; nothing is in it.
    assert [keys(bucket, folder) for folder in bucket.prefixes()] in ([], [[]], [[], []])


def test_a_writer_shows_its_object_only_once_closed(bucket: Bucket) -> None:
    writer = bucket.writer("a/big")
    for _ in range(3):
        assert writer.write(b"x" * 1000) == 1000
    assert writer.write(memoryview(b"yy")) == 2
    with pytest.raises(ObjectMissing):
        bucket.get("a/big")
    assert keys(bucket) == []
    writer.close()
    assert bucket.get("a/big").data == b"x" * 3000 + b"yy"
    writer.abort()
    assert keys(bucket) == ["a/big"]


def test_a_writer_may_write_nothing(bucket: Bucket) -> None:
    bucket.writer("a").close()
    assert bucket.get("a").data == b""


def test_a_writer_replaces_what_was_there(bucket: Bucket) -> None:
    bucket.put("a", b"old")
    writer = bucket.writer("a")
    writer.write(b"new")
    assert bucket.get("a").data == b"old"
    writer.close()
    assert bucket.get("a").data == b"new"


def test_an_abandoned_writer_leaves_nothing(bucket: Bucket) -> None:
    bucket.put("kept", b"old")
    for key in ("a/b", "kept"):
        writer = bucket.writer(key)
        writer.write(b"x" * 100_000)
        writer.abort()
        writer.abort()
    assert keys(bucket) == ["kept"]
    assert bucket.get("kept").data == b"old"


def test_a_writer_keeps_no_hold_of_the_callers_memory(bucket: Bucket) -> None:
    writer = bucket.writer("a")
    memory = bytearray(b"first")
    writer.write(memoryview(memory))
    memory[:] = b"later"
    writer.close()
    assert bucket.get("a").data == b"first"


def test_a_writer_takes_an_object_of_several_parts(bucket: Bucket) -> None:
    piece = bytes(range(256)) * 4096
    writer = bucket.writer("big")
    for _ in range(35):
        writer.write(piece)
    writer.write(memoryview(pa.array(range(10), pa.int64()).buffers()[1]))
    assert keys(bucket) == []
    writer.close()
    size = 35 * len(piece) + 80
    assert bucket.head("big").size == size
    assert bucket.get_range("big", 34 * len(piece), 300) == piece[:300]
    assert bucket.get_range("big", size - 8, 100) == (9).to_bytes(8, "little")


def test_parquet_is_written_and_read_through_a_bucket(bucket: Bucket) -> None:
    table = pa.table({"n": range(50_000), "s": [f"row {n % 97}" for n in range(50_000)]})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=10_000)
    bucket.put("t.parquet", sink.getvalue())
    with read_file(bucket, "t.parquet") as source:
        assert pq.read_table(source).equals(table)
    with read_file(bucket, "t.parquet", size=len(sink.getvalue())) as source:
        assert (
            pq.ParquetFile(pa.PythonFile(source))
            .read_row_group(3, ["s"])
            .equals(table.slice(30_000, 10_000).select(["s"]))
        )


def test_the_stores_clock_goes_with_ours(bucket: Bucket) -> None:
    readings = [bucket.now_ms() for _ in range(3)]
    assert all(later >= earlier for earlier, later in pairwise(readings))
    bucket.put("now", b"")
    assert abs(bucket.head("now").modified_ms - bucket.now_ms()) < 5_000


def test_a_file_path_is_given_exactly_where_there_is_a_file(bucket: Bucket) -> None:
    bucket.put("a b/c", b"content")
    path = bucket.path_of("a b/c")
    if path is not None:
        with open(path, "rb") as file:
            assert file.read() == b"content"
    assert (path is not None) == bucket.url.startswith("file://")
