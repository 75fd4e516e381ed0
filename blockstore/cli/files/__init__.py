"""Files as the command line takes them:

Parquet, CSV, TSV, JSON lines and Arrow, compressed or not, or stdin.
"""
