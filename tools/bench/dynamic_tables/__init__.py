"""Dynamic tables against static ones and other libraries' hash tables."""
