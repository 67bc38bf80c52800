"""What sessions do for the sake of one thing that passes did: a file for each."""
