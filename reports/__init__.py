"""Turns runs, comparisons and trends into pages, tables and JUnit. Reads files, never a lab."""
