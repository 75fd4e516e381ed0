"""The forms of a query's result: a table for people, CSV, TSV, JSON, Parquet and Arrow.

One encoder per form writes the batches of a result as they arrive, so memory does not grow with the
result. The command line, the gateway's HTTP responses and the files of its jobs all use the same
encoders; a form therefore looks the same everywhere.

    encode.py    Form and ``pieces``: a result as bytes, piece by piece
    text.py      dates, times, intervals and long numbers as text, for the forms that are text
    parameters.py  the values of a statement's parameters, as JSON
    deliver.py   a result on standard output, as a table for people, or in a file

What a form cannot hold (two columns of one name in JSON, a nested type in Parquet) raises Invalid
before the first byte where the schema shows it.

Example::

    for piece in pieces(Form.CSV, reader.schema, reader):
        out.write(piece)
"""
