"""Everything that can be known about a launch before it is made. Nothing in this package is
imported before a console asks for it, so that the idle agent needs no memory for it.
"""
