"""The flight recorder: after a crash, it writes one file with everything that the pod knew around
the crash.
"""
