"""What a graph is, and what passes made of it, for people: files, dumps and pictures."""
