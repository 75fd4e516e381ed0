"""Streams on Spark: a sink that writes each micro-batch once, and a source that follows a table's
versions."""
