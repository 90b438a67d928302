"""Checkpoints: what is on the disk, what may be removed, and copies in an object store."""
