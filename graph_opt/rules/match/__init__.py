"""The pattern language, its matcher, and what the nodes of a graph are for."""
