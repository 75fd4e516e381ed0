"""The one process that merges and removes: it observes a table, plans, executes, and sleeps."""
