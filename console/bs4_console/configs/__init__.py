"""Training configs: read, lint, fix, compare, migrate, size and keep the history of them."""
