"""A copy of a table at another place, brought up to date by each run."""
