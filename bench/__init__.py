"""Benchmarks: ours and the peers in turn, in one run, on one machine.

Owns what ``scripts/bench`` runs. Its rules:

- Every contestant has the same functions (``peers/api.py``); what one cannot do it refuses, and the
  table shows a dash.
- Contestants run in turn, round by round, each in a process of its own; the order rotates. A figure
  is the median over the rounds.
- Imports, cold starts and the making of inputs are never timed; what a contestant answers is
  checked. The benches on an S3 server with latency (``latency/``) do time cold starts: each
  operation runs in a process of its own, whose imports are a figure apart.
- A full run over all contestants renews ``bench/results/`` and ``docs/benchmarks.md``; a smaller
  one writes into ``.scratch/`` and changes no published figure.
"""
