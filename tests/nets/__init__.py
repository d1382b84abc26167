"""Two revisions of the lab at the same seeded work."""
