"""Parameter servers on this machine, as near or as far as a measurement wants them."""
