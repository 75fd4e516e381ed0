"""The messages of Flight SQL that this door reads and writes.

The names, numbers and types of the fields are those of Arrow's published ``FlightSql.proto``. They
are declared here, once, and become classes when the module is imported: a message needs no
generated file, no compiler and no certain release of protobuf. The pool is this module's own,
so that a program may load another package with the same messages beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from blockstore.errors import Invalid

_PACKAGE = "arrow.flight.protocol.sql"
_URL = f"type.googleapis.com/{_PACKAGE}."
_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint32": _FIELD.TYPE_UINT32,
    "enum": _FIELD.TYPE_INT32,
}
"""An enum and an int32 have the same bytes."""

_MOST_BYTES = 4 << 20
"""A command holds a statement and the values of its parameters."""
_QUERY = "query=1:string, transaction_id=2:bytes?"
_MESSAGES: Mapping[str, str] = {
    "CommandGetSqlInfo": "info=1:uint32*",
    "CommandGetXdbcTypeInfo": "data_type=1:int32?",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "catalog=1:string?, db_schema_filter_pattern=2:string?",
    "CommandGetTables": "catalog=1:string?, db_schema_filter_pattern=2:string?, "
    "table_name_filter_pattern=3:string?, table_types=4:string*, include_schema=5:bool",
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": "catalog=1:string?, db_schema=2:string?, table=3:string",
    "CommandGetExportedKeys": "catalog=1:string?, db_schema=2:string?, table=3:string",
    "CommandGetImportedKeys": "catalog=1:string?, db_schema=2:string?, table=3:string",
    "CommandGetCrossReference": "pk_catalog=1:string?, pk_db_schema=2:string?, pk_table=3:string, "
    "fk_catalog=4:string?, fk_db_schema=5:string?, fk_table=6:string",
    "CommandStatementQuery": _QUERY,
    "CommandStatementUpdate": _QUERY,
    "CommandPreparedStatementQuery": "prepared_statement_handle=1:bytes",
    "CommandPreparedStatementUpdate": "prepared_statement_handle=1:bytes",
    "CommandStatementIngest": "table_definition_options=1:TableDefinitionOptions, table=2:string, "
    "schema=3:string?, catalog=4:string?, temporary=5:bool, transaction_id=6:bytes?, "
    "options=1000:OptionsEntry*",
    "TableDefinitionOptions": "if_not_exist=1:enum, if_exists=2:enum",
    "OptionsEntry": "key=1:string, value=2:string",
    "TicketStatementQuery": "statement_handle=1:bytes",
    "ActionCreatePreparedStatementRequest": _QUERY,
    "ActionCreatePreparedStatementResult": "prepared_statement_handle=1:bytes, "
    "dataset_schema=2:bytes, parameter_schema=3:bytes",
    "ActionClosePreparedStatementRequest": "prepared_statement_handle=1:bytes",
    "DoPutUpdateResult": "record_count=1:int64",
    "DoPutPreparedStatementResult": "prepared_statement_handle=1:bytes?",
    # Of Flight itself: the FlightInfo inside is left to pyarrow, as its bytes.
    "CancelFlightInfoRequest": "info=1:bytes",
    "CancelFlightInfoResult": "status=1:enum",
}
"""Each message and its fields, ``name=number:type``; ``?`` may be absent, ``*`` is repeated."""


def _message(name: str, fields: str) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    for field in filter(None, fields.split(", ")):
        head, kind = field.split(":")
        named, number = head.split("=")
        label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
        one = made.field.add(name=named, number=int(number), label=label)
        plain = kind.rstrip("?*")
        if plain in _TYPES:
            one.type = _TYPES[plain]
        else:
            one.type, one.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
        if kind.endswith("?"):
            one.proto3_optional = True
            one.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{named}")
    return made


def _classes() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="blockstore/FlightSql.proto", package=_PACKAGE, syntax="proto3"
    )
    file.message_type.extend(_message(name, fields) for name, fields in _MESSAGES.items())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _classes()


def message(name: str, **fields: object) -> Any:
    """A message of this name."""
    return _CLASSES[name](**fields)


def packed(name: str, **fields: object) -> bytes:
    """A message of this name inside an Any, as commands, tickets and results of actions are."""
    made = any_pb2.Any(
        type_url=_URL + name, value=message(name, **fields).SerializeToString(deterministic=True)
    )
    return made.SerializeToString()


def unpacked(data: bytes) -> tuple[str, Any]:
    """The name and the message inside an Any. Raises Invalid for other bytes, and for a message
    that this door does not have."""
    if len(data) > _MOST_BYTES:
        raise Invalid(
            f"the command has {len(data):,} bytes, expected at most {_MOST_BYTES:,}: load rows by "
            "ingest"
        )
    made = any_pb2.Any()
    try:
        made.ParseFromString(data)
        name = made.type_url.removeprefix(_URL)
        if not made.type_url.startswith(_URL) or name not in _CLASSES:
            raise Invalid(
                f"the command is {made.type_url[:100]!r}, which is not a command of Flight SQL "
                "that this gateway has"
            )
        return name, _CLASSES[name].FromString(made.value)
    except (DecodeError, UnicodeDecodeError):
        raise Invalid("the command is not a message of Flight SQL") from None
