"""Room process."""
