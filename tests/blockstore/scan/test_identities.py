"""What an index entry says of the identities that it touched never changes: entries are kept."""

from __future__ import annotations

import pyarrow as pa

from blockstore.format.block import StreamKey
from blockstore.format.identity import Key, RowIds
from blockstore.scan.identities import hashes

PLAIN = StreamKey((), 0)


def test_the_hashes_of_identities_are_what_they_were() -> None:
    labelled = StreamKey((("site", "x"),), 0)
    two = hashes(Key(columns=("a", "b")), labelled, [pa.array([1, 2]), pa.array(["é", "z"])])
    assert two.tolist() == [250613906129006447, 8835546631828488753]
    one = hashes(Key(columns=("a",)), PLAIN, [pa.array([1, -5])])
    assert one.tolist() == [7396439107725158347, 2786210562790066552]
    assert hashes(RowIds(), PLAIN, [pa.array([7, 8])]).tolist() == [7, 8]


def test_rows_of_other_streams_have_other_hashes() -> None:
    key = Key(columns=("a",))
    streams = (PLAIN, StreamKey((("site", "x"),), 0), StreamKey((), 60))
    found = {int(hashes(key, stream, [pa.array([1])])[0]) for stream in streams}
    assert len(found) == len(streams)
