"""What moves behind an IO stage, where the region is cut, and the stage that becomes of it."""
