"""Files of tables: how each format is read and written, a block of rows at a time."""
