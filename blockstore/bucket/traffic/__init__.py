"""How the requests of one process to one store share it: budgets, a common pace, second requests.

The problem: each call decides for itself when it is repeated. When a store is down, or limits the
rate of requests, a process with 64 threads would then send several times its usual load. And one
request of a hundred takes seconds, for no reason that a second one would meet.

The mental model: a ``Traffic`` is what all buckets of a process that are the same bucket of the
same store have in common. It only decides; it neither sleeps nor sends.

- ``budget``: retries and hedges draw from budgets that requests refill.
- ``pace``: a store that responds "slow down" slows all requests together, less and less.
- ``latency``: how long a request of this kind and size takes, and so when it is late.
- ``spare``: threads in which a late request can be left behind.
- ``Paced`` and ``Hedged`` are the buckets that act on it; ``Retrying`` takes its budget from it.
"""
