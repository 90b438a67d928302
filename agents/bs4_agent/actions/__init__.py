"""Everything that is done to a pod: accepted once by key, one at a time per run, journalled, and
finished after a kill -9.
"""
