"""What a client asks before its first query: tables, columns, keys, and what this server is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool
from pyarrow import flight

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.reader.errors import Stale
from blockstore.reader.flight.messages import _MESSAGES, message, packed, unpacked
from tests.reader.flight.doors import Opened
from tests.reader.http.gateways import SCHEMA


def test_there_is_one_catalog_and_one_schema_without_a_name(door: Opened) -> None:
    assert door.client.get("CommandGetCatalogs").to_pydict() == {"catalog_name": [""]}
    schemas = door.client.get("CommandGetDbSchemas").to_pydict()
    assert schemas == {"catalog_name": [""], "db_schema_name": [""]}
    assert door.client.get("CommandGetDbSchemas", catalog="x").num_rows == 0
    assert door.client.get("CommandGetTableTypes").to_pydict() == {"table_type": ["TABLE"]}


def test_tables_are_listed_with_their_columns(door: Opened) -> None:
    found = door.client.get("CommandGetTables", include_schema=True, catalog="")
    row = next(one for one in found.to_pylist() if one["table_name"] == "flights")
    assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])) == SCHEMA
    assert row["table_type"] == "TABLE"


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"table_name_filter_pattern": "fl%"}, ["flights"]),
        ({"table_name_filter_pattern": "_alaries"}, ["salaries"]),
        ({"table_name_filter_pattern": "f.*"}, []),
        ({"table_name_filter_pattern": ""}, []),
        ({"table_name_filter_pattern": "%l%g_t%"}, ["flights"]),
        ({"table_name_filter_pattern": "%s%s"}, ["salaries"]),
        ({"table_name_filter_pattern": "flights_"}, []),
        ({"table_name_filter_pattern": "%" * 20_000 + "!"}, []),
        ({"table_name_filter_pattern": "%_" * 20_000}, []),
        ({"db_schema_filter_pattern": "%" * 20_000 + "!"}, []),
        ({"table_name_filter_pattern": "flights", "table_types": ["VIEW"]}, []),
        ({"table_name_filter_pattern": "flights", "table_types": ["VIEW", "TABLE"]}, ["flights"]),
        ({"catalog": "other"}, []),
        ({"db_schema_filter_pattern": "main"}, []),
        ({"db_schema_filter_pattern": "%", "table_name_filter_pattern": "flights"}, ["flights"]),
    ],
)
def test_a_list_of_tables_is_filtered(
    door: Opened, fields: dict[str, object], names: list[str]
) -> None:
    assert door.client.get("CommandGetTables", **fields)["table_name"].to_pylist() == names


def test_a_table_that_cannot_be_read_does_not_hide_the_others(
    door: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = door.http.gateway.tables
    snapshot = tables.snapshot

    def stale(name: str, *more: object, **options: object) -> object:
        if name == "salaries":
            raise Stale("table salaries is stale", retry_after_s=1)
        return snapshot(name, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(tables, "snapshot", stale)
    found = door.client.get("CommandGetTables", include_schema=True).to_pylist()
    columns = {
        row["table_name"]: pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names
        for row in found
    }
    assert (columns["flights"], columns["salaries"]) == (SCHEMA.names, [])
    with pytest.raises(flight.FlightUnavailableError, match="table salaries is stale"):
        door.client.get(
            "CommandGetTables", include_schema=True, table_name_filter_pattern="salaries"
        )


def test_a_key_is_a_primary_key(door: Opened) -> None:
    url = door.http.gateway.settings.tables.urls[0].partition("?")[0]
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.int64())])
    bs.create(f"{url}/keyed?durable=false", schema=schema, key=["a", "b"])
    door.http.gateway.tables.poll_now()
    found = door.client.get("CommandGetPrimaryKeys", table="keyed")
    assert found["column_name"].to_pylist() == ["a", "b"]
    assert found["key_sequence"].to_pylist() == [1, 2]
    assert door.client.get("CommandGetPrimaryKeys", table="flights").num_rows == 0
    for name in ("CommandGetExportedKeys", "CommandGetImportedKeys"):
        assert door.client.get(name, table="keyed").num_rows == 0
    cross = door.client.get("CommandGetCrossReference", pk_table="keyed", fk_table="flights")
    assert cross.num_rows == 0


def test_the_server_says_what_it_is(door: Opened) -> None:
    found = door.client.get("CommandGetSqlInfo")
    facts = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert (facts[0], facts[3], facts[10], facts[504]) == ("Blockstore", False, True, '"')
    some = door.client.get("CommandGetSqlInfo", info=[504, 0, 99_999])
    assert [str(one) for one in some["info_name"].to_pylist()] == ["504", "0"]
    types = door.client.get("CommandGetXdbcTypeInfo")
    assert {"BIGINT", "VARCHAR", "TIMESTAMP"} <= set(types["type_name"].to_pylist())
    one = door.client.get("CommandGetXdbcTypeInfo", data_type=12)
    assert one["type_name"].to_pylist() == ["VARCHAR"]


def test_every_message_survives_its_bytes_and_no_pool_of_others_has_it() -> None:
    for name in _MESSAGES:
        assert unpacked(packed(name)) == (name, message(name))
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(
            "arrow.flight.protocol.sql.CommandStatementQuery"
        )


def test_a_message_has_the_bytes_of_the_published_protocol() -> None:
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    inner = b"\x0a\x08SELECT 1\x12\x01t"
    data = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(inner)]) + inner
    assert packed("CommandStatementQuery", query="SELECT 1", transaction_id=b"t") == data
    options = [message("OptionsEntry", key="k", value="v")]
    made = message("CommandStatementIngest", table="t", options=options).SerializeToString()
    assert made == b"\x12\x01t" + b"\xc2\x3e\x06\x0a\x01k\x12\x01v"
    with pytest.raises(Invalid, match="is not a command of Flight SQL"):
        unpacked(b"\x0a\x01x")
