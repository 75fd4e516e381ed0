"""The SQL of a query: what it may contain, what it reads, and the views that DuckDB gets for it.

DuckDB's own parser turns the text into a tree (``syntax.py``). Every later step works on that tree,
so the text that is checked is the text that runs:

    statement.py    admits one SELECT over the given tables (``allowed.py`` has the lists)
    hidden.py       resolves hidden columns, which no star shows
    parameters.py   turns parameters into constants of the tree
    conditions.py   finds conditions that prune files; ``constants.py`` their exact values
    windows.py      finds ranges of rows by page statistics
    counting.py     recognizes a bare count, which opens no file
    views.py        writes the SQL of one view per table over the planned files
    types.py        the names of DuckDB's types

Rule: a condition may be weaker than the query, never stronger; what is not understood prunes
nothing. What is not listed as allowed is refused.

Example::

    statement = parse(syntax, "select * from flights where delay > 60", names.find)
    wanted = conditions(statement, {"flights": schema})
"""
