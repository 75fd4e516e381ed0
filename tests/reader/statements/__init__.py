"""Statements: SQL that writes."""
