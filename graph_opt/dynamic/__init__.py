"""Tables whose rows come and go with their keys."""
