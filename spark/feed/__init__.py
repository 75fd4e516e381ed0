"""What versions of a table changed, for Spark: ``option("changes", "true")``, once and as a stream.

An offset is a version, so each version's changes are delivered once, in order. One task reads the
changes of one run of versions; no version is divided.

    options.py   which versions, and whether rows come as they were, too
    reader.py    a DataFrame of changes, and a stream of them
"""
