"""The pictures of README.md: docs/pod.svg, docs/recording.cast and docs/recording.svg."""
