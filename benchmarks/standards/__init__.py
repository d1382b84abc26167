"""Linux's TCP in virtual time, and clients on it, against what others have published: `python -m benchmarks.standards`."""
