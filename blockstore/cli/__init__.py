"""The command ``blockstore``: one verb for each thing that a person does with a table.

The problem: a person needs short commands with exact messages; a script needs JSON and exit codes;
both need a command that starts quickly.

The mental model: ``main`` finds the verb's name, imports that verb and no other, and turns errors
into one sentence and an exit code. ``verbs/`` has one module for each verb. ``files/`` reads the
files that a person names. The modules beside them are the machinery: ``overview`` (the help),
``failure`` and ``streams`` (errors, and output that cannot be written), ``output``, ``layout`` and
``printable`` (tables and JSON), ``values``, ``options``, ``opening`` and ``schema_text`` (words on
the command line), ``rooms`` (the verbs of the compactor and the reader).

Example::

    $ blockstore create lake/flights --schema flights.csv
    $ blockstore write lake/flights flights.csv
    $ blockstore ls lake/flights --json
"""
