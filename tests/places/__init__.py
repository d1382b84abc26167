"""Twenty cells of one seed in many places (`make twenty-cells`)."""
