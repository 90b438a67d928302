#!/bin/sh
# Installs what the tests use beside Python: a real sshd, namespaces, tmux, a C compiler, and what draws pictures.
# Only as root on Debian; anywhere else it names what is missing and goes on, and the tests skip with a reason.
missing=""
for pair in sshd:openssh-server ssh:openssh-client ip:iproute2 tmux:tmux cc:gcc rsvg-convert:librsvg2-bin; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || [ -x "/usr/sbin/${pair%%:*}" ] || missing="$missing ${pair#*:}"
done
[ -e /usr/lib/openssh/sftp-server ] || missing="$missing openssh-sftp-server"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    case "$missing" in *gcc*) missing="$missing libc6-dev" ;; esac
    case "$missing" in *librsvg2-bin*) missing="$missing fonts-firacode fonts-dejavu-core" ;; esac
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
        # The tests start their own servers: what was installed for them does not open port 22 of this machine.
        case "$missing" in *openssh-server*) command -v systemctl >/dev/null 2>&1 && systemctl disable --quiet --now ssh 2>/dev/null ;; esac
        exit 0
    fi
    echo "could not install:$missing" >&2
fi
echo "not installed (the tests that need them are skipped):$missing"
