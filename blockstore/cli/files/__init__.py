"""Files as rows: Parquet, CSV, TSV, JSON lines and Arrow files, compressed or not, or standard
input.

The problem: a value must arrive in the table exactly as the file has it, or be refused with its
line, column and value. No row may be visible of a file that is refused.

The mental model: ``source`` names the files and checks that they exist; ``FileRows`` iterates over
their record batches, with the columns of the table. Each form has its own reader (``columnar``,
``delimited``, ``json_lines``). Delimited text is read by pyarrow, which is fast; after an error
``numbered`` reads it again, slowly, and finds the line. ``quotes`` finds quotes that are not
closed, ``text_values`` converts texts without loss.

Example::

    with sources(("day1.csv", "day2.csv.gz"), None) as named:
        for batch in FileRows(named, schema, nulls=("NA",), advance=lambda _: None):
            writer.write(batch)
"""
