"""One file for each public function that looks rows up: its graph as a declared pattern."""
