"""Prepares a bare pod for training: turns a recipe into a plan of typed steps and carries the plan
out like a playbook's.

The package is imported only when somebody sets a pod up, because an agent that only watches does
not need it.
"""
