"""Test cases that others wrote, held against ferry. README.md says how to add a collection."""
