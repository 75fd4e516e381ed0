"""Marks on blocks: what a person asks for, and what the compactor's quarantine left."""
