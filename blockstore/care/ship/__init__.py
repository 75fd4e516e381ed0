"""Finished blocks: built in a folder without a network, and shipped to a table later."""
