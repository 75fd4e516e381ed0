"""The reader: SQL over exact snapshots of tables, for one command or as an HTTP gateway.

A table is a set of immutable Parquet files that an index names. A reader folds the index into a
snapshot, prunes the files of a query by statistics, and lets DuckDB read the rest. Rows, tables and
files are changed by jobs and statements, by the same operations as elsewhere. Nothing removes
blocks.

    tables/     tables under URLs, polled, as consistent snapshots
    query/      an engine that runs one SELECT over snapshots, admitted, pruned and locked
    cache/      chunks of remote stores on a local disk
    forms/      results as a table for people, CSV, TSV, JSON, Parquet or Arrow
    http/       the gateway: routes, tokens, streamed responses
    doors/      what every door does in the same way
    postgres/   PostgreSQL's protocol
    jobs/       long queries, downloads and uploads, taken over from gateways that die
    statements/ SQL that writes
    iceberg/    the gateway as an Iceberg REST catalog
    page/       the gateway's page in the browser
    settings/   the gateway's configuration
    errors.py   the errors of this room; verbs.py, serve_verbs.py: its verbs of the command line

``plain_query.py`` is the command ``query`` without its parser. A user calls none of this directly::

    blockstore query lake/flights "select count(*) from flights"
    blockstore serve lake --no-auth
"""
