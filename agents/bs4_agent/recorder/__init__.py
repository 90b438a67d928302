"""The flight recorder: at a crash, one file that holds what was known around it."""
