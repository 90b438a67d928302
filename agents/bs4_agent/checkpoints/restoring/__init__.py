"""Restores a checkpoint step from an object store."""
