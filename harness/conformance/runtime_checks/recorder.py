"""The recorder: an executable in POSIX sh that records each of its executions, and answers by its script.

Documents and files call it a witness. It makes a veth pair, so that its result is true, and needs ip and nsenter. Its
folder of records holds `executions/N`, with N in the order of starts and ends together: two executions overlap if the
numbers of their starts and ends do. No clock is needed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.conformance.engine.delegates import with_variables
from harness.conformance.runtime_checks.networks import RecordedNetwork, from_document
from harness.files import write_atomically
from skel.strict_json import decode_json

_NETWORKS: Final = "networks.json"

# /proc/$$/environ is the environment before the shell has changed it.
# The first free number is that of the entries so far, unless another recorder takes it at this moment.
_SCRIPT: Final = r"""#!/bin/sh
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

take_number() {
    set -- "$witness_records"/executions/*
    [ -e "$1" ] || shift
    number=$#
    until mkdir "$witness_records/executions/$number" 2>/dev/null; do
        [ -d "$witness_records/executions" ] || exit 1
        number=$((number + 1))
    done
}

finish() {
    printf '%s' "$2" >"$record/stdout"
    printf '%s' "$1" >"$record/code"
    take_number
    printf '%s' "$number" >"$record/end"
    printf '%s' "$2"
    exit "$1"
}

fail() {
    finish 1 "{\"cniVersion\":\"$version\",\"code\":117,\"msg\":\"$1\"}"
}

attempt() {
    "$@" 2>"$record/stderr" || fail "witness: $1 $2 $3 failed: $(tr -d '"\\\n' <"$record/stderr")"
}

take_number
record="$witness_records/executions/$number"
printf '%s' "$witness_type" >"$record/type"
cat "/proc/$$/environ" >"$record/environ"
cat >"$record/stdin"
readlink /proc/self/ns/net >"$record/domain"
[ -z "$CNI_NETNS" ] || stat -L -c '%d:%i' "$CNI_NETNS" >"$record/netns" 2>/dev/null
(
    IFS=:
    set -f
    for folder in $CNI_PATH; do [ ! "$folder/$witness_type" -ef "$0" ] || echo "$folder"; done
) >"$record/found"
version=$(grep -o '"cniVersion" *: *"[^"]*"' "$record/stdin" | head -n 1 | cut -d '"' -f 4)

misfit="$witness_records/misfits/$witness_type/$CNI_COMMAND"
if [ -e "$misfit" ]; then
    once=$(cat "$misfit")
    [ "$once" = always ] || mkdir "$misfit-$CNI_CONTAINERID-$CNI_IFNAME" 2>/dev/null && fail "$(cat "$misfit-message")"
fi

sum=$(printf '%s' "$CNI_CONTAINERID/$CNI_IFNAME" | cksum | cut -d ' ' -f 1)
host=wit$(printf '%08x' "$sum")
mac=$(printf '%02x:%02x:%02x:%02x' $((sum >> 24 & 255)) $((sum >> 16 & 255)) $((sum >> 8 & 255)) $((sum & 255)))
address=10.199.$((sum >> 8 & 255)).$((sum % 254 + 1))/16
route=10.200.$((sum >> 8 & 255)).$((sum & 255))/32
case "$CNI_COMMAND" in
ADD)
    if [ "$witness_place" = 1 ]; then
        attempt ip link add "$host" address "02:02:$mac" type veth peer \
            name "$CNI_IFNAME" address "02:01:$mac" netns "$CNI_NETNS"
        attempt nsenter --net="$CNI_NETNS" ip address add "$address" dev "$CNI_IFNAME"
        attempt nsenter --net="$CNI_NETNS" ip link set "$CNI_IFNAME" up
        attempt ip link set "$host" up
        attempt nsenter --net="$CNI_NETNS" ip route add "$route" dev "$CNI_IFNAME"
    fi
    search=
    place=0
    while [ "$place" -lt "$witness_place" ]; do
        place=$((place + 1))
        search="$search${search:+,}\"after-$place.example\""
    done
    case "$version" in 0.*) family='"version":"4",' ;; *) family= ;; esac
    finish 0 "{\"cniVersion\":\"$version\",\"interfaces\":[{\"name\":\"$host\",\"mac\":\"02:02:$mac\"},\
{\"name\":\"$CNI_IFNAME\",\"mac\":\"02:01:$mac\",\"sandbox\":\"$CNI_NETNS\"}],\
\"ips\":[{$family\"address\":\"$address\",\"interface\":1}],\"routes\":[{\"dst\":\"$route\"}],\
\"dns\":{\"nameservers\":[\"192.0.2.53\"],\"search\":[$search]}}" ;;
DEL)
    [ "$witness_place" != 1 ] || ip link delete "$host" 2>/dev/null
    finish 0 "" ;;
CHECK)
    [ "$witness_place" != 1 ] || attempt ip link show dev "$host" >/dev/null
    finish 0 "" ;;
GC | STATUS) finish 0 "" ;;
VERSION)
    supported='"0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"'
    finish 0 "{\"cniVersion\":\"$version\",\"supportedVersions\":[$supported]}" ;;
*) fail "witness: CNI_COMMAND is none of the specification" ;;
esac
"""


def install(records: Path, bin_dir: Path, conf_dir: Path, networks: Sequence[RecordedNetwork]) -> list[Path]:
    """Write recorders and lists of `networks`, which record into `records`; return the files. Raises OSError.

    Records of earlier executions stay, and those of networks that were installed before count as well.
    """
    (records / "executions").mkdir(parents=True, exist_ok=True)
    written = []
    for network in networks:
        for place, plugin in enumerate((*network.inlined, *network.beside), start=1):
            path = bin_dir / str(plugin["type"])
            values = {"witness_records": records.absolute(), "witness_type": path.name, "witness_place": place}
            _write(path, with_variables(_SCRIPT, values), mode=0o755)
            written.append(path)
        for failure in network.failures:
            type = network.types[failure.place - 1]
            planned = records / "misfits" / type / failure.verb
            _write(planned, failure.times)
            _write(planned.with_name(f"{failure.verb}-message"), f"{type} fails {failure.verb} by its script")
        listed = conf_dir / network.file
        beside = conf_dir / str(network.document["name"])
        for index, plugin in enumerate(network.beside):
            _write(beside / f"{10 + index}-{plugin['type']}.conf", json.dumps(plugin, indent=2))
            written.append(beside / f"{10 + index}-{plugin['type']}.conf")
        # Last: a runtime that watches the folder reads the list, and then the files beside it.
        _write(listed, json.dumps(network.document, indent=2))
        written.append(listed)
    installed = {network.name: network for network in (*read_networks(records), *networks)}
    _write(records / _NETWORKS, json.dumps([network.to_document() for network in installed.values()], indent=2))
    return written


def read_networks(records: Path) -> list[RecordedNetwork]:
    """Return the networks that were installed with this folder of records. Raises OSError, ValueError."""
    path = records / _NETWORKS
    if not path.exists():
        return []
    documents = decode_json(path.read_bytes())
    return [from_document(each) for each in documents if isinstance(each, dict)] if isinstance(documents, list) else []


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Runtimes watch the folder of lists, and not that of executables.
    write_atomically(path, text.encode(), mode=mode, watched=not mode & 0o111)
