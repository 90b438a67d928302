"""What the console and the agent both speak and judge by. It imports neither of them, starts no
threads and opens no sockets.
"""
