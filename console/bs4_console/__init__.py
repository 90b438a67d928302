"""bs4-console: the operator's side."""

__version__ = "0.1.0"
