"""What every process of the project shares: configuration, logs, metrics, serving HTTP, and the
pages."""
