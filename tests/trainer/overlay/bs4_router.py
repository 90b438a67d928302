"""Stands for vllm-router: hands every connection on to the one engine behind it."""

import socket
import sys
import threading
from urllib.parse import urlparse


def hand_on(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for one in (source, target):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client, engine):
    try:
        behind = socket.create_connection(engine, 5)
    except OSError:
        client.recv(65536)
        client.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        client.close()
        return
    behind.settimeout(None)
    threading.Thread(target=hand_on, args=(behind, client), daemon=True).start()
    hand_on(client, behind)


def main():
    words = sys.argv
    given = {name: words[words.index(f"--{name}") + 1] for name in ("host", "port", "worker-urls")}
    url = urlparse(given["worker-urls"])
    listener = socket.create_server((given["host"], int(given["port"])), backlog=128)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, (url.hostname, url.port)), daemon=True).start()
