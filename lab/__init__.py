"""Roughwater: a network-conditions test lab for file-transfer clients."""

# A constant, because the agent (PID 1) imports this package too and must start quickly.
__version__ = "0.1.0"
