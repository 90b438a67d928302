"""The gate: what comes from a pod is checked here before anything is made of it."""
