"""What every door of the gateway does in the same way: who the caller is, how a query begins, how a
change of rows is submitted and awaited.

A door turns the messages of one protocol into these calls, and what they return into its own
messages. It has no rules of its own: scopes, limits, snapshots, jobs and errors are decided here
and below. An error is a project error or a ``Problem`` (``http/problems.py``), and ``of_error``
makes a ``Problem`` of any; a door maps its status to a code of its protocol and passes the sentence
on.

    access.py    the token of a call → the caller; its scopes
    queries.py   run a query, describe its columns, stop it
    explaining.py  what EXPLAIN says of a query or a change
    changes.py   run a statement that changes rows; definitions.py: one that defines a table
    loading.py   write many rows to a table; receiving.py: how many at once
    submitted.py what is a job: submit it once, await its end, cancel it

Example::

    caller = caller_of(gateway, "Bearer bsk_…")
    asked = Asked(sql="SELECT * FROM flights WHERE n < ?", parameters=[5])
    schema = described(gateway, caller, asked).schema
    stopper = Stopper()                      # stopper.cancel() from any thread
    with begun(gateway, caller, asked, stopper) as answer:
        for batch in answer:
            ...
    job = changed(gateway, caller, Change(sql="DELETE FROM flights WHERE n = 1"), wait_s=10)
"""
