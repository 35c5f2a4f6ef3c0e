"""Pictures of the documentation: docs/pod.svg, docs/topology.svg, docs/recording.cast and docs/recording.svg."""
