#!/usr/bin/env bash
# Installs the Debian packages that this machine lacks, and asks nothing of the network when it lacks none.
#
#   tools/need.sh WHAT=PACKAGE...
#
# WHAT is a command, an absolute path, or `module:NAME` for a module of the interpreter in $PYTHON.
set -euo pipefail

have() {
    case $1 in
        module:*) "${PYTHON:-/usr/bin/python3}" -c "import ${1#module:}" 2>/dev/null ;;
        /*) [ -e "$1" ] ;;
        *) command -v -- "$1" >/dev/null ;;
    esac
}

missing=()
for need in "$@"; do
    have "${need%%=*}" || missing+=("${need#*=}")
done
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing here: ${missing[*]} (as root on Debian: apt-get install ${missing[*]})" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# A machine that was just started may be looking for updates.
wait=--option=DPkg::Lock::Timeout=300
apt-get update $wait --quiet=2
apt-get install $wait --quiet=2 --yes --no-install-recommends "${missing[@]}"
