"""Everything that is done to a pod. Each action is accepted once by its key, one action at a time
works on a run, every action is journalled, and it is finished even after a kill -9 of the agent.
"""
