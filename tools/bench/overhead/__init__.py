"""What graph_opt costs where it gains nothing: the start of a session, tiny steps, first trials."""
