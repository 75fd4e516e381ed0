"""Delta's log of a table, for engines that read Delta.

A version becomes a checkpoint of its number below ``_delta_log/``, which ``_last_checkpoint`` names
(``export.py``). Rows that are not shown are deletion vectors (``vectors.py``). What the log says of
the table and of its files is in ``actions.py``, and columns are translated by ``schema.py``.

Delta finds columns by their names, and labels in its log. Where an engine would do that wrongly,
the export is refused, or asks of the engine what it lacks, so that the engine refuses.
"""
