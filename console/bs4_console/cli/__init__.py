"""The headless twin of the screen: one module per command, each thin."""
