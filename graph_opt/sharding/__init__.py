"""Tables that are divided among ranks: where rows are, how they start, and how they travel."""
