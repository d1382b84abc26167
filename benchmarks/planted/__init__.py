"""Regressions planted in ferry, for the power of `lab qualify` (`make bench-planted`)."""
