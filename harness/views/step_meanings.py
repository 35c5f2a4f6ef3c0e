"""The meaning of each kind of step in a trace: one sentence, and a page that says more."""

from typing import Final, NamedTuple

_SPEC: Final = "https://github.com/containernetworking/cni/blob/v1.3.0/SPEC.md"
_KUBERNETES: Final = "https://kubernetes.io/docs/concepts"
_POD: Final = f"{_KUBERNETES}/workloads/pods/pod-lifecycle/"
_MAN: Final = "https://man7.org/linux/man-pages"
_PLUGINS: Final = "https://www.cni.dev/plugins/current"
_NFTABLES: Final = "https://wiki.nftables.org/wiki-nftables/index.php"

_PAGES: Final = {
    "execution": ("CNI specification: execution protocol", f"{_SPEC}#section-2-execution-protocol"),
    "parameters": ("CNI specification: parameters", f"{_SPEC}#parameters"),
    "errors": ("CNI specification: errors", f"{_SPEC}#error"),
    "ADD": ("CNI specification: ADD", f"{_SPEC}#add-add-container-to-network-or-apply-modifications"),
    "DEL": ("CNI specification: DEL", f"{_SPEC}#del-remove-container-from-network-or-un-apply-modifications"),
    "CHECK": ("CNI specification: CHECK", f"{_SPEC}#check-check-containers-networking-is-as-expected"),
    "STATUS": ("CNI specification: STATUS", f"{_SPEC}#status-check-plugin-status"),
    "GC": ("CNI specification: GC", f"{_SPEC}#gc-clean-up-any-stale-resources"),
    "VERSION": ("CNI specification: VERSION", f"{_SPEC}#version-probe-plugin-version-support"),
    "lists": ("CNI specification: lists", f"{_SPEC}#section-3-execution-of-network-configurations"),
    "adding": ("CNI specification: adding an attachment", f"{_SPEC}#adding-an-attachment"),
    "deleting": ("CNI specification: deleting an attachment", f"{_SPEC}#deleting-an-attachment"),
    "checking": ("CNI specification: checking an attachment", f"{_SPEC}#checking-an-attachment"),
    "delegation": ("CNI specification: delegation", f"{_SPEC}#section-4-plugin-delegation"),
    "skeleton": ("CNI: package skel", "https://pkg.go.dev/github.com/containernetworking/cni/pkg/skel"),
    "bridge": ("CNI plugins: bridge", f"{_PLUGINS}/main/bridge/"),
    "host-local": ("CNI plugins: host-local", f"{_PLUGINS}/ipam/host-local/"),
    "dhcp": ("CNI plugins: dhcp", f"{_PLUGINS}/ipam/dhcp/"),
    "kubelet": ("Kubernetes: the kubelet", f"{_KUBERNETES}/architecture/#kubelet"),
    "pod": ("Kubernetes: life of a Pod", _POD),
    "phase": ("Kubernetes: phase of a Pod", f"{_POD}#pod-phase"),
    "containers": ("Kubernetes: states of a container", f"{_POD}#container-states"),
    "termination": ("Kubernetes: end of a Pod", f"{_POD}#pod-termination"),
    "volumes": ("Kubernetes: volumes", f"{_KUBERNETES}/storage/volumes/"),
    "images": ("Kubernetes: images", f"{_KUBERNETES}/containers/images/"),
    "CRI": ("Kubernetes: Container Runtime Interface", f"{_KUBERNETES}/containers/cri/"),
    "networks": (
        "Kubernetes: network plugins",
        f"{_KUBERNETES}/extend-kubernetes/compute-storage-net/network-plugins/",
    ),
    "namespaces": ("network_namespaces(7)", f"{_MAN}/man7/network_namespaces.7.html"),
    "veth": ("veth(4)", f"{_MAN}/man4/veth.4.html"),
    "rtnetlink": ("rtnetlink(7)", f"{_MAN}/man7/rtnetlink.7.html"),
    "flock": ("flock(2)", f"{_MAN}/man2/flock.2.html"),
    "iptables": ("iptables(8)", f"{_MAN}/man8/iptables.8.html"),
    "sysctl": ("Kernel: IP sysctl", "https://docs.kernel.org/networking/ip-sysctl.html"),
    "nftables": ("nftables: rules in one transaction", f"{_NFTABLES}/Atomic_rule_replacement"),
    "nat": ("nftables: address translation", f"{_NFTABLES}/Performing_Network_Address_Translation_(NAT)"),
}
"""Titles and addresses of pages."""

_TABLE: Final = {
    "cni-harness": ("The verb of the command line: the harness plays the part of the runtime.", "lists"),
    # Kubelet.
    "pleg.Start": ("The kubelet begins to list the runtime's sandboxes and containers, each second.", "kubelet"),
    "syncLoop": ("The kubelet waits for changes of Pods, and hands each one to the worker of its Pod.", "kubelet"),
    "syncPod": ("The worker of a Pod compares the Pod with its containers, and makes them agree.", "pod"),
    "SyncPod": ("The kubelet carries out the differences: the sandbox first, then the containers.", "pod"),
    "SyncTerminatingPod": ("The worker ends the containers of a deleted Pod, and then its sandbox.", "termination"),
    "SyncTerminatedPod": ("The worker releases the Pod's volumes and control groups.", "termination"),
    "generateAPIPodStatus": ("The kubelet makes the Pod's phase and conditions of its containers' states.", "phase"),
    "WaitForAttachAndMount": ("The kubelet makes the Pod's volumes ready.", "volumes"),
    "computePodActions": ("The kubelet decides which sandboxes and containers to kill, and which to start.", "pod"),
    "killPodWithSyncResult": ("The kubelet stops the Pod's containers and its sandbox.", "termination"),
    "createPodSandbox": ("The kubelet asks the runtime for a sandbox, which has the Pod's network namespace.", "CRI"),
    "startContainer": ("The kubelet has one container created and started, and runs its hook.", "containers"),
    # The Container Runtime Interface.
    "RunPodSandbox": ("The runtime makes a sandbox: a network namespace, its networks, the pause process.", "CRI"),
    "StopPodSandbox": ("The runtime takes the sandbox from its networks, and removes its namespace.", "CRI"),
    "RemovePodSandbox": ("The runtime removes its record of a stopped sandbox.", "CRI"),
    "CreateContainer": ("The runtime prepares a container: file system, mounts, OCI configuration.", "CRI"),
    "StartContainer": ("The runtime starts the process of a container.", "CRI"),
    "StopContainer": ("The runtime sends the stop signal, and SIGKILL after the grace period.", "termination"),
    "RemoveContainer": ("The runtime removes a stopped container.", "CRI"),
    "ExecSync": ("The runtime runs a command in a container, such as a hook or a probe.", "CRI"),
    "Exec": ("The runtime runs a command in a container, with a stream to the caller.", "CRI"),
    "PullImage": ("The runtime gets an image.", "images"),
    "RemoveImage": ("The runtime removes an image.", "images"),
    # The runtime's networks.
    "setupNetNS": ("The runtime makes a network namespace, and gives it a path.", "namespaces"),
    "setupPodNetwork": ("The runtime joins the pod to its networks, one after the other.", "networks"),
    "teardownPodNetwork": ("The runtime takes the pod from its networks, the last one first.", "networks"),
    "AddNetworkList": ("libcni executes ADD for each plugin of the list, in their order.", "adding"),
    "DelNetworkList": ("libcni executes DEL for each plugin of the list, the last one first.", "deleting"),
    "CheckNetworkList": ("libcni executes CHECK for each plugin of the list.", "checking"),
    "GCNetworkList": ("libcni has each plugin of the list remove leftovers of unknown attachments.", "GC"),
    "GetStatusNetworkList": ("libcni asks each plugin of the list whether it could serve an ADD.", "STATUS"),
    "addNetwork": ("One plugin gets its part of the list, with the result of the plugin before.", "lists"),
    "delNetwork": ("One plugin gets its part of the list, with the result of the ADD.", "lists"),
    "checkNetwork": ("One plugin gets its part of the list, with the result to compare with.", "lists"),
    "gcNetwork": ("One plugin gets its part of the list, with the attachments that are valid.", "GC"),
    "getStatusNetwork": ("One plugin gets its part of the list.", "STATUS"),
    "repairNetwork": ("One plugin is asked to put back rules: REPAIR is an addition of this project.", "execution"),
    "FindInPath": ("libcni looks for the executable of the plugin in the folders of CNI_PATH.", "parameters"),
    "ExecPluginWithResult": ("libcni executes the plugin: variables and JSON go in, JSON comes out.", "execution"),
    "ExecPluginWithoutResult": ("libcni executes the plugin, whose exit code is the answer.", "execution"),
    "GetVersionInfo": ("libcni asks the plugin for the versions of the specification that it knows.", "VERSION"),
    "cacheAdd": ("libcni keeps the result in a file, since CHECK and DEL need it.", "adding"),
    "cacheDel": ("libcni removes the file with the result.", "deleting"),
    # Plugins.
    "PluginMain": ("The plugin reads variables and stdin, checks them, and calls the verb's function.", "skeleton"),
    "cmdAdd": ("The plugin joins the pod to the network, or adds its part to the result before it.", "ADD"),
    "cmdDel": ("The plugin takes back all that its ADD has made.", "DEL"),
    "cmdCheck": ("The plugin compares the kernel with the result of the ADD.", "CHECK"),
    "cmdGC": ("The plugin removes leftovers of attachments that are not named.", "GC"),
    "cmdStatus": ("The plugin tells whether it could serve an ADD.", "STATUS"),
    "cmdRepair": ("The plugin puts back rules that another program has removed.", "execution"),
    "ipam.ExecAdd": ("The plugin calls its IPAM plugin, which chooses addresses.", "delegation"),
    "ipam.ExecDel": ("The plugin calls its IPAM plugin, which releases the addresses.", "delegation"),
    "ipam.ExecCheck": ("The plugin calls its IPAM plugin, which looks for the addresses.", "delegation"),
    "ipam.ExecStatus": ("The plugin asks its IPAM plugin whether it could serve an ADD.", "delegation"),
    "ipam.Exec": ("The plugin passes its verb on to its IPAM plugin.", "delegation"),
    "make links": ("The plugin makes the pod's interface, and its other end on the node.", "veth"),
    "configure pod": (
        "The plugin sets addresses, routes and parameters in the pod, and the interface up.",
        "rtnetlink",
    ),
    "after IPAM": ("The plugin sets what needs the addresses, such as the gateway's on the bridge.", "bridge"),
    "masquerade": ("The plugin adds rules that give packets which leave the node the node's address.", "nat"),
    "announce": ("The plugin has the kernel tell the neighbours the pod's MAC address.", "sysctl"),
    "undo": ("A step failed: the plugin takes back all steps before it.", "errors"),
    "reserve": ("The IPAM plugin writes a file for each address that it gives away.", "host-local"),
    "release": ("The IPAM plugin removes the files of the addresses.", "host-local"),
    "ask the DHCP daemon": ("The IPAM plugin has its daemon get a lease from a DHCP server.", "dhcp"),
    "wait for lock": ("The plugin waits until another process releases a file.", "flock"),
    # The kernel.
    "netlink": ("A system call with messages for the kernel: links, addresses, routes or rules.", "rtnetlink"),
    "nftables look-up": ("A system call that reads single objects of the firewall.", "nftables"),
    "nftables commit": ("A system call that changes the firewall: all of it takes effect, or nothing.", "nftables"),
    "iptables": ("A program that reads or changes the firewall for IPv4.", "iptables"),
    "ip6tables": ("A program that reads or changes the firewall for IPv6.", "iptables"),
}
"""Sentence and page by the name of a step, or by the first part of its name."""
_FAMILIES: Final = ("cni-harness ", "netlink ", "iptables-", "ip6tables-", "ipam.Exec")
"""The first parts of names that many steps have, such as `netlink RTM_NEWLINK` and `ipam.ExecADD`."""


class Meaning(NamedTuple):
    """A sentence about a kind of step; the title and the address of a page about it."""

    sentence: str
    title: str
    address: str


def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a step by its name; None if its kind is unknown, such as those of another's plugin."""
    known = name if name in _TABLE else next(filter(name.startswith, _FAMILIES), "").rstrip(" -")
    if known not in _TABLE:
        return None
    sentence, page = _TABLE[known]
    return Meaning(sentence, *_PAGES[page])
