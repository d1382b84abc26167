"""The presentation of INVALID and INCONCLUSIVE to a CI."""

from typing import Literal

NoVerdict = Literal["usual", "error", "skip"]
"""usual: an error and a skip; error, skip: both as the one or the other. Each has its reason."""
