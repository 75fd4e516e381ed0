"""Tables of other formats as tables of our own: ``blockstore import``.

sources.py (which rows there are) -> imported.py (into a table, once) -> digest.py (both are equal).
"""
