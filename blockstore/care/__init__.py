"""Care of a table: everything that checks, repairs or copies one, and that no writer does.

The problem: stores lose and corrupt objects, clocks are wrong, people make mistakes, and devices
write where there is no network. The rooms here find such damage, repair it as far as good bytes are
left, and move tables and blocks from one place to another.

The mental model: a room first looks (pure functions over frozen values), then reports or plans, and
only then acts. Every action can be interrupted and run again. Nothing here deletes a block of a
table: that is the compactor's work.

Rooms:
- ``verify``: finds what is wrong with a table, and names the command that fixes it.
- ``repair``: replaces damaged blocks and checkpoints from bytes that are still good.
- ``rebuild``: creates a new index where the old one is lost.
- ``marks``: places and withdraws a person's marks on blocks.
- ``ship``: builds blocks in a folder without a network and uploads them to a table later.
- ``replicate``: keeps a copy of a table at another place.

Shared between them: ``survey`` (what can be read of an index), ``examine`` (what is in one block's
directory), ``finding`` (the result of a check) and ``transfer`` (verified copies of files).

Example::

    report = verify(open_bucket("lake/flights", world), world, deep=True)
    for finding in report:
        print(finding.severity, finding.object, finding.what, finding.fix)
"""
