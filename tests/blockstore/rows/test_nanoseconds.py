"""Keys and values that values of Python cannot hold are named in errors, without pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

KINDS = {
    "timestamp": ("pa.timestamp('ns')", "2020-01-01T00:00:00.000000005"),
    "zoned": ("pa.timestamp('ns', 'UTC')", "2020-01-01T00:00:00.000000005Z"),
    "duration": ("pa.duration('ns')", "5"),
    "time": ("pa.time64('ns')", "00:00:00.000000005"),
}

SCRIPT = """
from blockstore.cli.lean import without_pandas
without_pandas()
import pyarrow as pa
import blockstore as bs
from blockstore.cli.row_names import row_named
from blockstore.cli.row_tables import rows_as_json
from blockstore.scan.identities import row_texts
from tests.blockstore.rows.lake import by_key

kind, shown = {kind}, {shown!r}
count = 1_577_836_800_000_000_005 if pa.types.is_timestamp(kind) else 5
schema = pa.schema([("k", kind), ("v", pa.int64())])
key = pa.scalar(count, kind)
def rows(*values):
    keys = pa.array([key] * len(values), kind)
    return pa.table([keys, pa.array(values, pa.int64())], schema=schema)
table = by_key(schema=schema, key="k")
table.upsert(rows(1))

def says(do, of=bs.BlockstoreError):
    try:
        do()
    except of as error:
        assert shown in str(error), error
        return error
    raise AssertionError(do)

error = says(lambda: table.insert(rows(2)), bs.RowConflict)
assert error.rows[0][0] == key
says(lambda: table.upsert(rows(1, 2)), bs.Invalid)
says(lambda: table.set_cells([{{"k": error.rows[0][0], "v": 2, "_version": 9}}]), bs.RowConflict)
gone = rows(1).select(["k"]).append_column("_version", pa.array([9]))
says(lambda: table.delete_rows(gone), bs.RowConflict)
says(lambda: table.overwrite(rows(2), where="v = 2"), bs.RowConflict)
says(lambda: table.merge(rows(1, 2), on="k").when_matched_update().execute(), bs.Invalid)
named = row_named(shown, table.definition)
assert named == key
found = table.row_history(named)
assert rows_as_json(found)[0]["v"] == 1
table.delete_rows([named])
assert table.snapshot().count() == 0

lists = pa.array([[key], [pa.scalar(count + 1, kind)], [key], None], pa.list_(kind))
texts = row_texts([lists]).to_pylist()
assert texts[0] == texts[2] and len(set(texts)) == 3, texts
late = pa.array([[10**18], [10**18 + 1]], pa.list_(pa.timestamp("us")))
assert len(set(row_texts([late]).to_pylist())) == 2
"""


@pytest.mark.parametrize(("kind", "shown"), KINDS.values(), ids=list(KINDS))
def test_a_key_of_nanoseconds_is_named_without_pandas(kind: str, shown: str) -> None:
    script = SCRIPT.format(kind=kind, shown=shown)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
