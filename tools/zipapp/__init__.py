"""`make zipapp`: the harness and all that it needs as one file, cni-harness.pyz."""
