"""What stands for Docker's client: its argv as the real one takes it, and a wait for the exit code.
`@SOCKET@` is the daemon's.
"""

import json
import os
import re
import socket
import sys

USAGE = 125


def refuse(sentence):
    sys.stderr.write(f"{sentence}\n")
    sys.exit(USAGE)


def value(words, name):
    if not words:
        refuse(f"flag needs an argument: {name}")
    return words.pop(0)


def parse(words):
    verb = words.pop(0) if words else ""
    order = {"verb": verb, "cwd": "/", "env": {}, "container": "", "command": []}
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if verb == "exec" and flag in ("-w", "--workdir"):
            order["cwd"] = value(words, flag)
        elif verb == "exec" and flag in ("-e", "--env"):
            name, equals, given = value(words, flag).partition("=")
            # A name alone passes the value on, where there is one.
            if equals or name in os.environ:
                order["env"][name] = given if equals else os.environ[name]
        elif verb == "exec" and flag in ("-i", "--interactive"):
            order["stdin"] = True
        elif verb == "logs" and flag in ("--since", "--until"):
            order[flag[2:]] = value(words, flag)
        elif verb == "logs" and flag in ("-t", "--timestamps"):
            order["timestamps"] = True
        elif verb == "inspect" and flag in ("-f", "--format"):
            order["format"] = value(words, flag)
            if order["format"] not in ("{{.State.Pid}}", "{{.State.FinishedAt}}"):
                refuse("this stand-in knows {{.State.Pid}} and {{.State.FinishedAt}} only")
        elif verb == "inspect" and flag == "--type":
            value(words, flag)
        else:
            refuse(f"unknown flag: {flag}")
    if verb not in ("exec", "inspect", "logs"):
        refuse(f"docker: '{verb}' is not a docker command.")
    order["container"] = words.pop(0) if words else ""
    order["command"] = words
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", order["container"]) or (
        verb == "exec" and not words
    ):
        refuse(f'"docker {verb}" requires at least {2 if verb == "exec" else 1} argument(s).')
    return order


def main():
    order = {**parse(sys.argv[1:]), "argv": sys.argv[1:]}
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect("@SOCKET@")
        socket.send_fds(
            daemon, [json.dumps(order).encode()], [1, 2, *([0] if order.get("stdin") else [])]
        )
        answer = json.loads(daemon.makefile().read())
    if "text" in answer:
        print(answer["text"])
    if "error" in answer:
        sys.stderr.write(f"{answer['error']}\n")
    sys.exit(answer["code"])


main()
