"""DuckDB's own tests of statements, run on a session of Blockstore.

``parsing.py`` reads a file in the form of sqllogictest, ``running.py`` runs one, and the command
runs those of a folder and says what came out:

    python -m tests.reader.statements.duckdb_suite FOLDER [--tables ids] [--files]

``files`` has the ones that every run of the tests repeats: unchanged, with their licence.
"""
