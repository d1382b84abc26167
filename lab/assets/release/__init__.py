"""`make release`: builds, checks and lists what a release consists of (docs/decisions/0024-releases.md).

Works in a checkout only, and is not part of the package that it builds.
"""
