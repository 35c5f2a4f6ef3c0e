#!/usr/bin/env bash
# Installs the Debian packages that this machine lacks, and asks nothing of the network when it lacks none.
#
#   tools/need.sh [--into FOLDER] WHAT=PACKAGE...
#
# WHAT is a command, an absolute path, or `module:NAME` for a module of the interpreter in $PYTHON. With a folder, the
# packages are unpacked there and not installed: none of their scripts runs, and no service starts, now or at boot.
set -euo pipefail

into=
if [ "${1-}" = --into ]; then
    into=$2
    shift 2
fi

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
if [ -n "$into" ] && [ "$(cat "$into/packages" 2>/dev/null)" = "${missing[*]}" ]; then
    exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing here: ${missing[*]} (as root on Debian: apt-get install ${missing[*]})" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# A machine that was just started may be looking for updates.
wait=--option=DPkg::Lock::Timeout=300
apt-get update $wait --quiet=2
if [ -z "$into" ]; then
    apt-get install $wait --quiet=2 --yes --no-install-recommends "${missing[@]}"
    exit
fi
rm -rf "$into" "$into.new"
mkdir -p "$into.new/archives/partial" "$into.new/usr"
for name in bin sbin lib lib32 lib64; do # as on a machine, where /bin is a link
    mkdir -p "$into.new/usr/$name"
    ln -s "usr/$name" "$into.new/$name"
done
# APT gives a folder that only root may enter to no other user.
apt-get install $wait --quiet=2 --yes --no-install-recommends --download-only --option=APT::Sandbox::User=root \
    --option=Dir::Cache::archives="$(realpath "$into.new/archives")" "${missing[@]}"
for package in "$into.new"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$into.new"
done
rm -r "$into.new/archives"
echo "${missing[*]}" >"$into.new/packages"
mv "$into.new" "$into"
