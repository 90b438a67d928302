#!/bin/sh
# Makes the project's environment, with exactly what requirements.lock pins: `sh tools/environment.sh DIRECTORY [PYTHON]`.
# PYTHON: default python3, or the newest there is when that is older than 3.11.
#
# A fresh Debian has Python without ensurepip (a package of its own) and refuses `pip install` outside an environment. So the environment
# is made without pip, and whichever pip there is installs into it; that needs neither root nor apt. Only where there is none, it is
# installed: as root, by apt.
set -eu
cd "$(dirname "$0")/.."
venv=$1
python=${2:-}

main() {
    if [ -z "$python" ]; then
        python=$(choose)
    fi
    suitable "$python" || fail "${python:-python3} is not a Python 3.11 or newer; install one (Debian 12: \`apt-get install python3\`)" \
        "or name another: \`make PYTHON=/path/to/python3.12 ...\`."
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')

    suitable "$venv/bin/python" || create
    find_pip || { install_ensurepip && find_pip; } ||
        fail "$python has neither pip nor ensurepip; as root on Debian: \`apt-get install $package\`, then make again."

    pip install --require-hashes -r requirements.lock
    pip install --no-deps --no-build-isolation -e .
}

suitable() {
    [ "$("$1" -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null)" = True ]
}

choose() {
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if suitable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

create() {
    echo "setting up $venv with $("$python" -c 'import platform, sys; print(sys.executable, platform.python_version())') (about a minute)"
    # What is there is an environment whose Python has gone or is too old.
    clear=$([ ! -e "$venv/pyvenv.cfg" ] || echo --clear)
    "$python" -m venv --without-pip $clear "$venv" ||
        fail "\`$python -m venv\` ended with the message above; as root on Debian: \`apt-get install $package\`, then make again."
}

# Sets how `pip` reaches the environment; fails when there is no way.
find_pip() {
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip --default-pip >/dev/null 2>&1; then
        from=inside
    elif "$python" -m pip --python "$venv/bin/python" --version >/dev/null 2>&1; then
        from=outside
    else
        return 1
    fi
}

pip() {
    if [ "$from" = inside ]; then
        "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"
    else
        "$python" -m pip --python "$venv/bin/python" --quiet --disable-pip-version-check "$@"
    fi
}

# As root on Debian: the package with ensurepip for this very Python.
install_ensurepip() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "installing: $package"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
}

fail() {
    echo "No environment was made: $*" >&2
    exit 1
}

main
