"""What can be known of a start before it is made. Nothing here is imported before somebody asks:
the idle daemon does not pay for it.
"""
