"""What the suite has found, told to people and to programs."""
