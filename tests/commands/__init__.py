"""Commands as users type them: `python -m tests.commands --help`."""
