"""The topology, read back from its document (Topology.to_document)."""

from collections.abc import Mapping
from typing import Any

from harness.views.link_owners import LinkOwner
from harness.views.namespaces import LinkEnd
from harness.views.port_words import PublishedPort
from harness.views.topology import Topology, TopologyLink, TopologyPlace


def read_document(document: Mapping[str, Any]) -> Topology:
    """Return the topology of a document. Raises KeyError, TypeError."""
    places = [_place(place) for place in document["places"]]
    return Topology(
        {place.label: place for place in places},
        tuple(PublishedPort(**port) for port in document["portMappings"]),
        tuple(document["missing"]),
    )


def _place(document: Mapping[str, Any]) -> TopologyPlace:
    return TopologyPlace(
        label=document["label"],
        netns=document["netns"],
        pods=tuple(document["pods"]),
        links=tuple(_link(link) for link in document["links"]),
        routes=tuple(document["routes"]),
    )


def _link(document: Mapping[str, Any]) -> TopologyLink:
    peer, owner = document["peer"], document["owner"]
    return TopologyLink(
        **{
            **document,
            "addresses": tuple(document["addresses"]),
            "peer": LinkEnd(**peer) if peer else None,
            "owner": LinkOwner(**owner) if owner else None,
        }
    )
