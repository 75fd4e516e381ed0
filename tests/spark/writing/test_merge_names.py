"""Which names of the source a merge on Spark refuses before it runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.spark.writing.merge_into import MergeInto
from blockstore.spark.writing.options import WriteMode, WriteOptions

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Session:
    """None that is asked for anything."""


def merge(url: str, *columns: str) -> MergeInto:
    bs.create(url, schema=SCHEMA, key="id")
    source: Any = SimpleNamespace(columns=list(columns))
    options = WriteOptions(url=url, mode=WriteMode.MERGE)
    return MergeInto(source, options, None, tune=False, session=Session())


@pytest.mark.parametrize("clause", ["when_matched_update", "when_not_matched_insert"])
def test_a_source_column_in_another_case_is_refused_where_all_are_taken(
    tmp_path: Path, clause: str
) -> None:
    wrong = getattr(merge(f"file://{tmp_path}/t", "id", "Name", "extra"), clause)()
    with pytest.raises(Invalid, match="another case: case counts, so write 'Name' as 'name'"):
        wrong.execute()
