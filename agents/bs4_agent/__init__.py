"""The pod's side of bs4-console: reads what a pod knows, does what was planned, survives what the
pod survives.
"""

__version__ = "0.1.0"

#: Protocol versions this agent speaks, newest first. The console picks the newest that both know; N
#: and N-1 stay supported.
PROTOCOLS = (1,)
