"""The commands: everything that the screen can do, without the screen. There is one module per
command, and each is thin.
"""
