"""The volumes of pods (Kubernetes' pkg/volume): folders and files of the node that containers see."""
