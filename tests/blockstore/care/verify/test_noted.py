"""A history that was rewritten, cut or collected does not lead through the version that somebody
has noted."""

from __future__ import annotations

import hashlib

import orjson
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.finding import Finding
from blockstore.care.verify import Noted, verify
from blockstore.errors import Invalid
from blockstore.format.document import sealed
from blockstore.index.chain import Link
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.entry import decode_entry
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.names import entry_key
from blockstore.world import World
from tests.support.index_data import DEFINITION, append
from tests.support.put_back import copy_of, put_back


@pytest.fixture
def log(bucket: MemoryBucket, world: World) -> Log:
    log = create(bucket, world, DEFINITION)
    for number in range(1, 6):
        log.commit(append(number))
    return log


def noted_at(log: Log, version: int) -> Noted:
    return Noted(version, log.at(version).last.chain)


def told(bucket: MemoryBucket, world: World, noted: Noted) -> list[Finding]:
    return [one for one in verify(bucket, world, noted=noted) if one.check == "chain"]


def rewrite(bucket: MemoryBucket, first: int, last: int) -> None:
    """What somebody with the key to the bucket can do: another message in one entry, and every
    entry after it to fit."""
    link = Link("")
    for number in range(1, last + 1):
        value = orjson.loads(bucket.get(entry_key(number)).data)
        value.pop("check")
        if number >= first:
            if number == first:
                value["message"] = "another history"
            value["prev"] = {"commit": link.commit, "sha256": link.sha256, "chain": link.chain}
            bucket.delete([entry_key(number)])
            bucket.put_if_absent(entry_key(number), sealed(orjson.dumps(value)))
        link = decode_entry(bucket.get(entry_key(number)).data, entry_id=number).link_after(link)


def test_the_history_leads_through_every_version_that_was_noted(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    noted = [noted_at(log, version) for version in range(1, 7)]
    log.commit(append(6))
    for one in noted:
        assert told(bucket, world, one) == []


def test_the_digest_is_that_of_the_format_page(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    chain = bytes(32)
    for number in range(1, 7):
        raw = hashlib.sha256(bucket.get(entry_key(number)).data).digest()
        chain = hashlib.sha256(chain + raw).digest()
    assert verify(bucket, world).chain == chain.hex() == noted_at(log, 6).chain


def test_a_history_that_was_rewritten_with_care_is_noticed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    before, after = noted_at(log, 3), noted_at(log, 6)
    rewrite(bucket, 4, 6)
    assert Log(bucket, world).state.version == 6, "nothing else shows it"
    assert told(bucket, world, before) == []
    (found,) = told(bucket, world, after)
    assert (found.severity, found.object) == ("error", entry_key(6))
    assert after.chain in found.what


def test_a_history_that_was_put_back_does_not_reach_the_version(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    copy = copy_of(bucket)
    log.commit(append(6))
    noted = noted_at(log, 7)
    put_back(bucket, copy)
    (found,) = told(bucket, world, noted)
    assert found.severity == "error"
    assert "the history ends before it" in found.what
    Log(bucket, world).commit(append(7))
    (found,) = told(bucket, world, noted)
    assert found.severity == "error"


def test_a_version_that_was_collected_is_a_warning_and_no_proof(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    noted = noted_at(log, 3)
    write_checkpoint(bucket, log.state)
    for number in (20, 21):
        world.clock.sleep(49 * 3600)
        log.commit(append(number))
    assert collect(log, world).entries
    (found,) = told(bucket, world, noted)
    assert found.severity == "warning"
    assert "cannot be compared" in found.what


@pytest.mark.parametrize(
    "text", ["", "3", "3:", "0:" + "ab" * 32, "3:" + "AB" * 32, "3:abc", "x:" + "ab" * 32]
)
def test_what_nobody_has_noted_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="VERSION:DIGEST"):
        Noted.parse(text)


def test_what_is_printed_is_what_is_taken() -> None:
    noted = Noted(12, "ab" * 32)
    assert Noted.parse(str(noted)) == noted
