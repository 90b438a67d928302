"""The pod's side of bs4-console. It reads what a pod knows, carries out what was planned, and
survives everything that the pod survives.
"""

__version__ = "0.1.0"

#: Protocol versions that this agent speaks, newest first. The console picks the newest that both
#: know. N and N-1 stay supported.
PROTOCOLS = (1,)
