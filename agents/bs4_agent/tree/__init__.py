"""Reads, moves and deletes directory trees that may be in other people's hands. Every directory is
reached by a descriptor of the one that holds it, so no link is ever followed.
"""
