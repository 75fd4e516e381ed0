"""An Iceberg REST catalog in the gateway: engines read its tables with a URL and a token.

    catalog.py    namespaces and tables, and the metadata of a table's newest version
    routes.py     the requests of the specification that are answered, and the refusal of the others
    problems.py   errors in the specification's form
    lineage.py    versions that were exported before, as ancestors of the newest
    creating.py   a table that an engine creates
    commits/      what engines commit

A lake is a namespace: the last part of its URL. The catalog exports the version that the gateway
serves when an engine loads the table (``blockstore/export/``); the files are read by the engine
itself, from the store. What an engine commits becomes blocks.
"""
