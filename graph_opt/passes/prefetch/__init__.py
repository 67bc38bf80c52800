"""What moves into prefetch, where the region is cut, and the stage that runs it."""
