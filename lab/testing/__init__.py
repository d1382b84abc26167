"""The lab in pytest: fixtures, and how verdicts look there. `plugin` imports the lab at the first use of a fixture."""
