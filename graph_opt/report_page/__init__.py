"""A graph, and what passes made of it, as one HTML file that needs no network."""
