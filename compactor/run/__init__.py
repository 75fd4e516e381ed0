"""Room run."""
