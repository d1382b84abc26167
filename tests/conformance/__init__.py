"""Test cases that others wrote, held against ferry. README.md here says how to add a collection."""
