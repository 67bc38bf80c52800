"""What a graph is and what a pass made of it, for people: files, dumps, tables, pictures."""
