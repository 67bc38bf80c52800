"""What rows that miss updates cost in accuracy."""
