"""Checkpoints in an object store: the names of the files there, and the order of uploads, so that a
name never promises something that is not there.

Only `b2.py` uses b2sdk. Everything else is standard library, so that the agent may import it
without the second bundle.
"""
