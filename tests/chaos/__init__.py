"""Rounds in which several things go wrong with a pod, its link and its console at the same time.

`make chaos ROUNDS=n SEED=s` runs them. `README.md` here says what a round does and what it checks.
"""
