#!/bin/sh -e
# Prepares a node for plugins that need an interface of the host: see "Preparing the node" in docs/conformance-setup.md.
ip link add uplink0 type veth peer name uplink1
ip link set uplink0 up
ip link set uplink1 up
