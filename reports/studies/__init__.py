"""Pages of docs/studies, made from the data they ship: `python -m reports.studies`. ADR 0017 says why."""
