"""Lists of sources that are too long for an entry: they are in a file of the block, which the entry
hashed."""

from __future__ import annotations

from blockstore.errors import Corrupt, Invalid
from blockstore.format.sources import decode_sources, hash_sources
from blockstore.index.added import AddedBlock, SourcesFile
from blockstore.index.requests import Requests
from blockstore.names import object_key, sources_path


def with_sources(requests: Requests, url: str, block: AddedBlock, entry: int) -> AddedBlock:
    """The block with its list loaded, if an entry names it by its file.

    Raises Corrupt where that is another list.
    """
    file = block.sources
    if not isinstance(file, SourcesFile):
        return block
    subject = f"index entry {entry}: block {block.ulid} of {url}"
    data = requests.data(object_key(block.ulid, sources_path()))
    if data is None:
        raise Corrupt(f"{subject}: {sources_path()} is missing: restore it from a copy")
    sources = decode_sources(data, subject)
    if len(sources) != file.count or hash_sources(sources) != file.sha256:
        raise Corrupt(
            f"{subject}: {sources_path()} holds {len(sources)} sources that differ from the "
            f"{file.count} that the entry hashed: restore it from a copy"
        )
    try:
        return block.with_sources(sources)
    except Invalid as error:
        raise Corrupt(f"{subject} contradicts itself: {error}") from None
