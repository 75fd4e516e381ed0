"""The audit log: what each token has asked for, and what came of it, a line of JSON for each.

    statement.py   a statement from its begin to its end; the one that runs (``running``)
    job.py         the end of a job
    log.py         the file: appended to, made again when it was moved away, never a line lost

A door begins a statement, and ends it before its client has the end. What runs between
says what it read and wrote to the statement that is ``running``: no call hands it on. Without
``[audit]`` the same calls write nothing.
"""

from blockstore.reader.audit.log import AuditLog
from blockstore.reader.audit.statement import Outcome, Statement, outcome_of, running

__all__ = ["AuditLog", "Outcome", "Statement", "outcome_of", "running"]
