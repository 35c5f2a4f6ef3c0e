#!/usr/bin/env bash
# Runs a command in namespaces of its own, which end with it; nothing of a test run stays, however it ended.
#
#   tools/test_run.sh [--usr FOLDER] COMMAND...     as root; FOLDER/usr lies over /usr
#
# The command sees no network but `lo`, no other process, an empty /run/netns, and none of the mounts below pytest's
# folders. Its control groups are below a group of its own. A run that SIGKILL ended leaves that group: the next run
# removes it.
set -euo pipefail
prefix=cni-harness-tests.

# Prints the mount point of each hierarchy of control groups, its type and its options.
hierarchies() {
    awk '$3 ~ /^cgroup2?$/ {print $2, $3, $4}' /proc/self/mounts
}

# Prints the folder for a new group of a hierarchy. Below version 2's root, since a group with processes (a session of
# systemd) passes no controllers on; below this process's own group in version 1.
parent_of() {
    local place=$1 type=$2 options=$3 controllers name
    if [ "$type" = cgroup ]; then
        while IFS=: read -r _ controllers name; do
            if [ -n "$controllers" ] && [[ ",$options," = *",$controllers,"* ]] && [ -d "$place$name" ]; then
                place=${place%/}${name%/}
            fi
        done </proc/self/cgroup
    fi
    echo "$place"
}

# Makes the group of this run in the hierarchies on stdin, and prints each folder, mount point, type and options.
# A hierarchy that is read-only keeps its mount.
make_groups() {
    local name=$1 place type options parent file controller
    while read -r place type options; do
        parent=$(parent_of "$place" "$type" "$options")
        mkdir "$parent/$name" 2>/dev/null || continue
        if [ "$type" = cgroup2 ]; then
            for controller in $(cat "$parent/cgroup.controllers"); do
                echo "+$controller" 2>/dev/null >"$parent/cgroup.subtree_control" || : # as far as the kernel allows it
            done
        fi
        mkdir "$parent/$name/run"
        for file in cpuset.cpus cpuset.mems; do # version 1 takes no process before these are set
            if [ "$type" = cgroup ] && [ -e "$parent/$file" ]; then
                cat "$parent/$file" >"$parent/$name/$file"
                cat "$parent/$file" >"$parent/$name/run/$file"
            fi
        done
        echo "$parent/$name $place $type $options"
    done
}

# Removes the groups of runs that have ended. A run that goes on has processes in `run`, and the kernel refuses rmdir.
remove_ended_groups() {
    local place group
    while read -r place _; do
        while read -r group; do
            [ ! -d "$group/run" ] || rmdir "$group/run" 2>/dev/null || continue
            find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || :
        done < <(find "$place" -type d -name "$prefix*" 2>/dev/null)
    done < <(hierarchies)
}

# Mounts the hierarchies on stdin again: their roots are this run's groups now. Its processes go one group further down,
# since version 2 passes controllers on from a group without processes.
enter_groups() {
    local place type options
    while read -r _ place type options; do
        umount --lazy "$place"
        mount -t "$type" -o "$options" "$type" "$place"
        echo 0 >"$place/run/cgroup.procs"
    done
}

# Unmounts what ended runs have left, the last mount first; other mount namespaces keep theirs.
unmount_leftovers() {
    local place
    tac /proc/self/mountinfo | cut -d' ' -f5 | while read -r place; do
        place=$(printf %b "$place")
        case $place in
            "${PYTEST_DEBUG_TEMPROOT:-${TMPDIR:-/tmp}}"/pytest-of-*) umount --lazy "$place" ;;
        esac
    done
}

# This process is the first of its PID namespace: it takes over orphans, and all end with it.
if [ "${1-}" = --inside ]; then
    lock=$2
    groups=$3
    usr=$4
    shift 4
    trap : INT QUIT # they are for the command
    mount -t proc proc /proc
    [ -z "$groups" ] || enter_groups <<<"$groups"
    flock --unlock "$lock"
    exec {lock}<&-
    unmount_leftovers
    mount -t tmpfs -o mode=0755 tmpfs /run/netns
    ip link set lo up
    if [ -n "$usr" ] && [ -d "$usr/usr" ]; then
        (
            cd "$usr" # options of mount have no colon in a path
            mkdir -p memory
            mount -t tmpfs tmpfs memory
            mkdir memory/upper memory/work
            mount -t overlay overlay -o lowerdir=usr:/usr,upperdir=memory/upper,workdir=memory/work /usr
        )
    fi
    code=0
    "$@" || code=$?
    exit "$code"
fi

usr=
if [ "${1-}" = --usr ]; then
    usr=$2
    shift 2
fi
mkdir -p /run/netns
exec {lock}</sys/fs/cgroup
flock --timeout 20 "$lock" || : # until `run` has a process, the groups look like those of an ended run
remove_ended_groups
groups=$(hierarchies | make_groups "$prefix$$.$RANDOM")
(
    while read -r group _; do
        [ -z "$group" ] || echo 0 >"$group/cgroup.procs"
    done <<<"$groups"
    # Background jobs of a shell ignore SIGINT. An end of this script by SIGKILL is the end of all.
    exec env --default-signal=INT,QUIT setpriv --pdeathsig KILL unshare --net --mount --propagation private --cgroup \
        --pid --fork --kill-child "${BASH_SOURCE[0]}" --inside "$lock" "$groups" "$usr" "$@"
) <&0 &
child=$!
exec {lock}<&-
trap : INT QUIT
trap 'kill -KILL "$child"' HUP TERM
while :; do
    wait "$child" && code=0 || code=$?
    kill -0 "$child" 2>/dev/null || break
done
exec {lock}</sys/fs/cgroup
for _ in {1..50}; do # killed processes take a moment to end
    flock --timeout 20 "$lock" || :
    remove_ended_groups
    flock --unlock "$lock"
    while read -r group _; do
        [ ! -d "$group" ] || { sleep 0.1 && continue 2; }
    done <<<"$groups"
    break
done
exit "$code"
