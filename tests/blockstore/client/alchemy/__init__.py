"""SQLAlchemy's own tests of a dialect, which run in a process of their own (``test_dialect.py``):
their plugin changes how pytest collects."""
