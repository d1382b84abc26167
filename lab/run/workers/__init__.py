"""Questions answered on other machines, which Dask distributed reaches: docs/decisions/0023-many-machines.md."""
