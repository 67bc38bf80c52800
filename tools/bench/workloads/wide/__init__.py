"""Wide: 200 multi-hot columns over a small network, a model bound by its lookups."""
