"""Setting a pod up: what the agent does for it."""
