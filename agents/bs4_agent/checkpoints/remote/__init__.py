"""Moves checkpoints to the object store, and removes them there, in processes of their own. What
both sides know of the store is in `bs4_common.checkpoints.remote`.
"""
