"""What passes and sessions did, as data for people, and its one renderer: texts and JSON."""
