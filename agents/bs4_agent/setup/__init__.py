"""Making a bare pod ready to train: a recipe in, a plan of typed steps out, carried out like a
playbook's.

Imported only when somebody sets a pod up: an agent that watches never needs it.
"""
