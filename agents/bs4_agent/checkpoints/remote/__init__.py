"""Checkpoints in an object store: what lies there under which name, and how it gets there so that a
name never promises what is not there.

Only `b2.py` knows b2sdk; everything else is standard library, so the agent may import it without
the second bundle.
"""
