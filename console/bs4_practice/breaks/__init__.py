"""How each known failure is brought about on a practice pod, one module for each part of a run that
breaks.
"""
