"""What patterns are made of, how they are matched, and what a graph's nodes are for."""
