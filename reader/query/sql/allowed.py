"""What a query may be made of: the kinds of nodes, the table functions, and the functions that are
refused.

Rules:
- Nodes and table functions are listed if they are allowed: one that DuckDB learns tomorrow is
  refused until someone looks.
- Scalar functions are listed if they are refused: those that show the process or the engine, run or
  bind other SQL, hold the query up, write, or take bytes for the inside of the engine. A test holds
  the list of all functions that DuckDB has, so that a new one is seen when DuckDB is renewed.
"""

from __future__ import annotations

TABLE_FUNCTIONS = frozenset(
    {
        "generate_series",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
REFUSED_FUNCTIONS = frozenset(
    {
        # They show the process, the engine or other tables' files.
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_setting",
        "current_transaction_id",
        "get_block_size",
        "getenv",
        "getvariable",
        "in_search_path",
        "inet_client_addr",
        "inet_client_port",
        "inet_server_addr",
        "inet_server_port",
        "pg_conf_load_time",
        "pg_get_constraintdef",
        "pg_get_expr",
        "pg_get_viewdef",
        "pg_postmaster_start_time",
        "stats",
        "txid_current",
        "vector_type",
        # They read or bind SQL that nobody looked at.
        "json_deserialize_sql",
        "json_serialize_plan",
        "json_serialize_sql",
        # They take bytes for the inside of the engine.
        "aggregate_state",
        "combine",
        "combine_aggr",
        "finalize",
        "to_aggregate_state",
        "variant_bytes_to_variant",
        "variant_group_object",
        # They hold the query up, write, or change what comes after.
        "currval",
        "nextval",
        "parse_duckdb_log_message",
        "pg_sleep",
        "setseed",
        "setval",
        "sleep_ms",
        "write_log",
    }
)

QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
TABLE_NODES = frozenset(
    {
        "BASE_TABLE",
        "EMPTY",
        "EXPRESSION_LIST",
        "JOIN",
        "PIVOT",
        "SHOW_REF",
        "SUBQUERY",
        "TABLE_FUNCTION",
    }
)
OTHER_NODES = frozenset(
    {
        "ASCENDING",
        "DESCENDING",
        "DISTINCT_MODIFIER",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_DEFAULT",
        "ORDER_MODIFIER",
    }
)
EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "DEFAULT",
        "FUNCTION",
        "LAMBDA",
        "LAMBDA_REF",
        "OPERATOR",
        "PARAMETER",
        "POSITIONAL_REFERENCE",
        "STAR",
        "SUBQUERY",
        "TYPE",
        "WINDOW",
    }
)
SHOWN = frozenset({"DESCRIBE", "SUMMARY"})


def is_refused(function: str) -> bool:
    """Whether a scalar or aggregate function is refused; ``function`` in lower case."""
    return function in REFUSED_FUNCTIONS or function.startswith("__internal")
