"""Options of other table formats that a data source of Python cannot offer under the same name, and
what to use instead. Ignoring one would change the write or the read."""

from __future__ import annotations

INSTEAD = {
    "partitionoverwritemode": "a table has no partitions, and an overwrite without a condition "
    "replaces all rows: choose the rows with option('where', \"day = '2024-01-01'\").",
    "timestampasof": "use 'as_of', where a time without a zone is UTC and not the session's.",
    "txnappid": "name the job with 'app' and 'batch': then it counts once.",
    "txnversion": "name the job with 'app' and 'batch': then it counts once.",
    "overwriteschema": "change the columns with bs.open(url).alter(…), then overwrite the rows.",
    "startingversion": "a stream begins with option('start', 17), at that version.",
    "startingtimestamp": "a stream begins with option('start', '2024-01-01T00:00:00Z').",
    "maxfilespertrigger": "use 'max_blocks' of readStream.",
    "maxbytespertrigger": "use 'max_bytes' of readStream.",
    "ignorechanges": "readStream passes over versions that change rows with "
    "option('on_removal', 'ignore').",
    "ignoredeletes": "readStream passes over versions that remove rows with "
    "option('on_removal', 'ignore').",
    "skipchangecommits": "readStream passes over versions that change rows with "
    "option('on_removal', 'ignore').",
    "datachange": "remove it: merges are the compactor's work, and no reader sees them.",
    "optimizewrite": "remove it: the compactor merges small blocks.",
    "compression": "remove it: chunks are compressed by zstd.",
    "maxrecordsperfile": "use 'chunk_size', the largest size of a chunk in bytes.",
    "usermetadata": "use the argument message of blockstore.spark.append.",
}
"""By the option's name in lower case."""
