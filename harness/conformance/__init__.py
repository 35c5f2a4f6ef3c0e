"""The conformance suite: it checks a CNI plugin from outside against the sentences of the specification."""
