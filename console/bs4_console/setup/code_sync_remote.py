"""The pod's part of a code sync: one small program for the pod's Python. It reads a question as
JSON and prints the answer as JSON.
"""

from __future__ import annotations

#: Runs on Python 3.8 or newer with the standard library only. The program never follows a link and
#: never removes a file: it replaces a file by one rename, and moves files to
#: `<parent of the target>/.bs4/sync/trash/<stamp>/`.
SCRIPT = r"""
import fnmatch, json, os, stat, sys, tarfile

question = json.load(sys.stdin)
root = os.path.join(os.path.expanduser("~"), os.path.expanduser(question["root"]))
root = root.rstrip("/")
root = os.path.join(os.path.realpath(os.path.dirname(root)), os.path.basename(root))
store = os.path.join(os.path.dirname(root), ".bs4", "sync")


def safe(name):
    parts = name.split("/")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise SystemExit("an odd name was sent: %r" % name)
    at = root
    for part in parts[:-1]:
        at = os.path.join(at, part)
        if os.path.islink(at):
            raise SystemExit("%s is a link, and nothing is sent through it" % at)
    return os.path.join(root, *parts)


def walk(directory, below, files, links):
    for entry in os.scandir(directory):
        if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in question["exclude"]):
            continue
        name = below + entry.name
        if entry.is_dir(follow_symlinks=False):
            walk(entry.path, name + "/", files, links)
            continue
        status = entry.stat(follow_symlinks=False)
        link = os.readlink(entry.path) if stat.S_ISLNK(status.st_mode) else ""
        files[name] = [status.st_size, status.st_mtime, link]
        if link:
            links.append(name)


answer = {"root": root, "store": store}
op = question["op"]
if os.path.islink(root):
    raise SystemExit("%s is a link, and nothing is sent through it" % root)
if op == "list":
    answer["files"], answer["links"] = {}, []
    if os.path.isdir(root):
        walk(root, "", answer["files"], answer["links"])
elif op == "prepare":
    os.makedirs(root, exist_ok=True)
    os.makedirs(store, mode=0o700, exist_ok=True)
    answer["archive"] = os.path.join(store, "incoming-" + os.urandom(8).hex() + ".tar.gz")
elif op == "place":
    archive = question["archive"]
    with tarfile.open(archive, "r:gz") as source:
        for member in source:
            path = safe(member.name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fresh = os.path.join(os.path.dirname(path), ".bs4-sync-" + os.urandom(8).hex())
            if member.issym():
                os.symlink(member.linkname, fresh)
                os.utime(fresh, (member.mtime, member.mtime), follow_symlinks=False)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with open(os.open(fresh, flags, member.mode & 0o777), "wb") as target:
                    data = source.extractfile(member)
                    while True:
                        piece = data.read(1 << 20)
                        if not piece:
                            break
                        target.write(piece)
                os.chmod(fresh, member.mode & 0o777)
                os.utime(fresh, (member.mtime, member.mtime))
            os.replace(fresh, path)
    os.unlink(archive)
elif op == "trash":
    moved = 0
    for name in question["names"]:
        path, place = safe(name), os.path.join(store, "trash", question["stamp"], *name.split("/"))
        if os.path.lexists(path):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            os.rename(path, place)
            moved += 1
    answer["moved"] = moved
json.dump(answer, sys.stdout)
"""
