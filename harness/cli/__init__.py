"""The verbs of `cni-harness`, a module each; a module's `command` is the verb."""
