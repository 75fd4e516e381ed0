"""Jobs: queries, downloads and uploads that outlive a request, and the gateway that accepted them.

All state of a job is in the bucket, under ``jobs/``: a request, one claim per attempt, perhaps a
cancellation, and at the end one outcome. Gateways share nothing else. Each polls the records; one of
them claims a job by creating its next claim, renews it as a lease while it works, and creates the
outcome. If that gateway dies, its lease stops changing, and another gateway claims the next attempt.

    Request, Lease, Outcome   the records (record.py); JobStore writes them (store.py)
    Runner                    claims jobs, runs them, renews leases (runner.py)
    LeaseWatch                whether a lease has run out, by this gateway's own clock (watch.py)
    Work                      what one kind of job does (work.py): Extracts and Uploads
    Meter                     the progress of a run, and the reason to stop it (meter.py)

Every step may be repeated: an upload is one exactly-once batch, a result file has a name of its own
per attempt, and the first outcome is the only one.

Example::

    store.submit(job, request)
    claimed = runner.offer(job)
    if claimed is not None:
        runner.begin(claimed)
"""
