"""The nodes of failed checks that stay for a look."""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.conformance.check_options import HangingError, StoppedError
from harness.conformance.finding import Finding, KeptNode, NotApplicableError
from harness.conformance.trial import Trial
from harness.runtime.site import remove_kept


@contextmanager
def kept_on_failure(trial: Trial) -> Iterator[None]:
    """Have the trial's node stay if the block raises a violation or an unforeseen error, and its options say so."""
    try:
        yield
    except (NotApplicableError, StoppedError, HangingError):
        raise
    except Exception:
        if trial.options.keeps:
            trial.site.keep()
        raise


def kept_node(trial: Trial) -> KeptNode | None:
    """Return the trial's node, if it stays after the check."""
    site = trial.site
    if not site.is_kept:
        return None
    enter = (*trial.node.shell_words(), "/bin/sh")
    return KeptNode(site.name, site.state_dir, trial.node_netns, tuple(site.namespaces), enter)


def without_node(finding: Finding) -> Finding:
    """Remove the node that stayed because of a finding, if there is one, and return the finding. Raises OSError."""
    if finding.kept is None:
        return finding
    remove_kept(finding.kept.name, finding.kept.state_dir)
    return finding._replace(kept=None)
