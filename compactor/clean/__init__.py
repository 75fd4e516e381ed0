"""Room clean."""
