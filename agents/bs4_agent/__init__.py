"""The pod's side of bs4-console. It reads what a pod knows, carries out what was planned, and
survives everything that the pod survives.
"""

__version__ = "0.1.0"
