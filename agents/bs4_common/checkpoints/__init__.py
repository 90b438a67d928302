"""The checkpoints of a run: which exist and are complete, on the disk and in the store."""
