"""More workers and servers than a machine has room for, computed from what a step costs."""
