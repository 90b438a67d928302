"""Find a topic in the program's own documentation, offline."""
