"""Properties of random models, tried with fresh seeds until time is out."""
