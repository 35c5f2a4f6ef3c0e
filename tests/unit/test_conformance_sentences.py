"""The sentences of the conformance suite: none of SPEC.md's is missing, and each says how binding it is."""

import re
from itertools import groupby

import pytest

from harness.conformance.checks import all_checks
from harness.conformance.sentences import Sentence, load, parse

FORMAT = "1 Network configuration format"
PROTOCOL = "2 Execution Protocol"
EXECUTION = "3 Execution of Network Configurations"
DELEGATION = "4 Plugin Delegation"
RESULTS = "5 Result Types"

# One entry a line of SPEC.md 1.1.0 that has "must" or "should" in it, with words around each of them.
LINES: list[tuple[str, tuple[str, ...]]] = [
    ("Overview", ('The key words "must", "must not", "required", "shall", "shall not", "should", "should not"',)),
    (
        f"{FORMAT} / Configuration format",
        (
            "This should be unique across all network configurations",
            "Must start with an alphanumeric character",
            "Must not contain characters disallowed in file paths",
        ),
    ),
    (f"{FORMAT} / Configuration format", ("runtimes must not call `CHECK`",)),
    (f"{FORMAT} / Configuration format", ("runtimes must not call `GC`",)),
    (f"{FORMAT} / Configuration format", ("must be appended to the final list of `plugins`",)),
    (f"{FORMAT} / Configuration format", ("for a network must consist of all the plugin objects",)),
    (
        f"{FORMAT} / Plugin configuration objects",
        (
            "must unambiguously associate each loaded plugin configuration object",
            "plugin configuration objects must be validated",
            "with a valid configuration object must be invoked",
        ),
    ),
    (f"{FORMAT} / Plugin configuration objects", ("The runtime MUST pass through these fields, unchanged",)),
    (
        f"{FORMAT} / Plugin configuration objects",
        ("Matches the name of the CNI plugin binary on disk. Must not contain characters",),
    ),
    (f"{FORMAT} / Plugin configuration objects", ("should not be used in configuration",)),
    (f"{FORMAT} / Plugin configuration objects", ("should respect their intended semantics",)),
    (
        f"{FORMAT} / Plugin configuration objects",
        ("filename of the IPAM plugin executable. Must not contain characters",),
    ),
    (f"{FORMAT} / Plugin configuration objects", ("Runtimes must preserve unknown fields",)),
    (f"{FORMAT} / Version considerations", ("CNI runtimes MUST select the highest supported version",)),
    (f"{FORMAT} / Version considerations", ("MUST remain backwards and forwards compatible",)),
    (f"{PROTOCOL} / Overview", ("The runtime must execute the plugin in the runtime's networking domain",)),
    (f"{PROTOCOL} / Parameters", ("Must not be empty. Must start with an alphanumeric character",)),
    (f"{PROTOCOL} / Parameters", ("unable to use this interface name it must return an error",)),
    (
        f"{PROTOCOL} / Errors",
        ("A plugin must exit with a return code of 0 on success", 'it should output an ["error" result structure]'),
    ),
    (f"{PROTOCOL} / ADD", ("upon receiving an `ADD` command, should either",)),
    (
        f"{PROTOCOL} / ADD",
        ("successful, it must output a [result structure]", "it MUST handle `prevResult` by either passing it"),
    ),
    (f"{PROTOCOL} / ADD", ("already exists in the container, the CNI plugin MUST return with an error",)),
    (f"{PROTOCOL} / ADD", ("A runtime should not call `ADD` twice",)),
    (f"{PROTOCOL} / DEL", ("upon receiving a `DEL` command, should either",)),
    (f"{PROTOCOL} / DEL", ("A `prevResult` must be supplied to CNI plugins",)),
    (f"{PROTOCOL} / DEL", ("Plugins should still return without error if `prevResult` is empty",)),
    (
        f"{PROTOCOL} / DEL",
        (
            "plugins should always complete a `DEL` action without error",
            "an IPAM plugin should generally release an IP allocation",
            "no error should be returned if this action fails",
            "the `bridge` plugin should delegate the DEL action to the IPAM plugin",
        ),
    ),
    (f"{PROTOCOL} / DEL", ("Plugins MUST accept multiple `DEL` calls",)),
    (f"{PROTOCOL} / CHECK", ("The plugin must consult the `prevResult`",)),
    (f"{PROTOCOL} / CHECK", ("The plugin must allow for a later chained plugin",)),
    (f"{PROTOCOL} / CHECK", ("The plugin should return an error if a resource included in the CNI Result type",)),
    (f"{PROTOCOL} / CHECK", ("The plugin should return an error if other resources not tracked",)),
    (f"{PROTOCOL} / CHECK", ("The plugin should return an error if it is aware of a condition",)),
    (
        f"{PROTOCOL} / CHECK",
        ("The plugin must handle `CHECK` being called immediately", "should allow a reasonable convergence delay"),
    ),
    (f"{PROTOCOL} / CHECK", ("The plugin should call `CHECK` on any delegated",)),
    (f"{PROTOCOL} / CHECK", ("A runtime must not call `CHECK` for a container that has not been `ADD`ed",)),
    (f"{PROTOCOL} / CHECK", ("A runtime must not call `CHECK` if `disableCheck` is set",)),
    (f"{PROTOCOL} / CHECK", ("A runtime must include a `prevResult` field",)),
    (f"{PROTOCOL} / CHECK", ("with the exception of `CNI_PATH`, must be the same as the corresponding `ADD`",)),
    (
        f"{PROTOCOL} / STATUS",
        ("A plugin must exit with a zero (success) return code", "it must exit with a non-zero return code"),
    ),
    (
        f"{PROTOCOL} / STATUS",
        ("or daemon, it should return an error to `STATUS`", "hardware queues), it should return an error if those"),
    ),
    (f"{PROTOCOL} / STATUS", ("A plugin MUST NOT rely on `STATUS` being called",)),
    (f"{PROTOCOL} / STATUS", ("Plugins should always expect other CNI operations",)),
    (
        f"{PROTOCOL} / STATUS",
        ("it must also execute a `STATUS` request to that plugin", "executing plugin should return an error result"),
    ),
    (f"{PROTOCOL} / VERSION", ("The plugin should output via standard-out",)),
    (
        f"{PROTOCOL} / GC",
        ("A plugin SHOULD remove as many stale resources", "a plugin should remove any IPAM reservations"),
    ),
    (
        f"{PROTOCOL} / GC",
        ("Plugins should generally complete a `GC` action without error", "encountered, a plugin should continue"),
    ),
    (f"{PROTOCOL} / GC", ("Plugins MUST, additionally, forward any GC calls to delegated plugins",)),
    (f"{PROTOCOL} / GC", ("The runtime MUST NOT use GC as a substitute for DEL",)),
    (f"{PROTOCOL} / GC", ("The runtime must provide a JSON-serialized plugin configuration object",)),
    (f"{EXECUTION} / Lifecycle & Ordering", ("must create a new network namespace for the container",)),
    (f"{EXECUTION} / Lifecycle & Ordering", ("must not invoke parallel operations for the same container",)),
    (
        f"{EXECUTION} / Lifecycle & Ordering",
        (
            "The runtime must exclusively execute either _gc_ or _add_ and _delete_",
            "must ensure that no _add_ or _delete_ operations are in progress",
            "must wait for _gc_ to complete",
        ),
    ),
    (
        f"{EXECUTION} / Lifecycle & Ordering",
        ("Plugins must handle being executed concurrently", "they must implement locking on shared resources"),
    ),
    (
        f"{EXECUTION} / Lifecycle & Ordering",
        ("must ensure that _add_ is eventually followed", "A _delete_ must still be executed even if the _add_ fails"),
    ),
    (f"{EXECUTION} / Lifecycle & Ordering", ("should not change between _add_ and _delete_",)),
    (f"{EXECUTION} / Lifecycle & Ordering", ("The network configuration should not change between _attachments_.",)),
    (f"{EXECUTION} / Attachment Parameters", ("While a network configuration should not change between",)),
    (f"{EXECUTION} / Attachment Parameters", ("Must not be empty. Must start with an alphanumeric character",)),
    (
        f"{EXECUTION} / Attachment Parameters",
        ("the runtime must be provided a list of paths", "This must also be provided to plugins during execution"),
    ),
    (f"{EXECUTION} / Adding an attachment", ("The runtime must store the result returned by the final plugin",)),
    (f"{EXECUTION} / Checking an attachment", ("The runtime must use the same attachment parameters",)),
    (
        f"{EXECUTION} / Deriving request configuration from plugin configuration",
        ("must be transformed to a format understood by the plugin",),
    ),
    (
        f"{EXECUTION} / Deriving request configuration from plugin configuration",
        ("`runtimeConfig`: the runtime must insert an object",),
    ),
    (
        f"{EXECUTION} / Deriving request configuration from plugin configuration",
        ("`prevResult`: the runtime must insert", "This field must not be set for the first _add_"),
    ),
    (
        f"{EXECUTION} / Deriving request configuration from plugin configuration",
        ("`capabilities`: must not be set",),
    ),
    (
        f"{EXECUTION} / Deriving request configuration from plugin configuration",
        ("should be passed through unaltered",),
    ),
    (f"{EXECUTION} / Deriving runtimeConfig", ("should be inserted in the `runtimeConfig`",)),
    (DELEGATION, ("The IPAM plugin must determine the interface IP/subnet",)),
    (f"{DELEGATION} / Delegated Plugin protocol", ("must receive all the same environment variables",)),
    (
        f"{DELEGATION} / Delegated plugin execution procedure",
        ("When a plugin executes a delegated plugin, it should: - Look up",),
    ),
    (
        f"{DELEGATION} / Delegated plugin execution procedure",
        ("it must also execute any delegated plugins", "return error, error should be returned by the upper plugin"),
    ),
    (
        f"{DELEGATION} / Delegated plugin execution procedure",
        ('the "upper" plugin should execute again with `DEL` before returning failure',),
    ),
    (RESULTS, ("plugins must output result information", "The output should be serialized as JSON on standard out")),
    (f"{RESULTS} / ADD Success", ("must output a JSON object with the following keys upon a successful `ADD`",)),
    (f"{RESULTS} / ADD Success", ("this should be the value passed via `CNI_NETNS`",)),
    (f"{RESULTS} / ADD Success", ("which interface this IP configuration should be applied to",)),
    (
        f"{RESULTS} / ADD Success",
        ("must output it as their result, with any possible", "must output a result equivalent to the provided"),
    ),
    (f"{RESULTS} / Delegated plugins (IPAM)", ("must return an abbreviated _Success_ object",)),
    (f"{RESULTS} / VERSION Success", ("must output a JSON object with the following keys upon a `VERSION` operation",)),
    (f"{RESULTS} / Error", ("Plugins should output a JSON object with the following keys if they encounter an error",)),
    (f"{RESULTS} / Error", ("The error message must contain the key and value of the unsupported field",)),
    (f"{RESULTS} / Error", ("The error message must contain the names of invalid variables",)),
    (f"{RESULTS} / Error", ("some transient condition that should clear up", "it should re-try the operation later")),
    (f"{RESULTS} / Version", ("must output a JSON object with the following keys upon a `VERSION` operation",)),
]

OF_SPEC = [sentence for sentence in load().values() if sentence.document == "SPEC.md"]

VALID = """
- document: SPEC.md
  section: Errors
  sentences:
    - {id: exit-code, level: MUST, side: plugin, text: A plugin must exit.}
"""


def strongest_word(text: str) -> str:
    """Return the level that RFC 2119's strongest word in a text stands for, empty if it has none."""
    words = text.lower()
    if re.search(r"\b(must|shall|required)\b", words):
        return "MUST"
    if re.search(r"\b(should|recommended)\b", words):
        return "SHOULD"
    return "MAY" if re.search(r"\b(may|optional)\b", words) else ""


def test_the_lines_are_all_that_the_specification_has() -> None:
    assert len(LINES) == 85


@pytest.mark.parametrize(("section", "fragments"), LINES, ids=[fragments[0] for _, fragments in LINES])
def test_every_line_is_covered(section: str, fragments: tuple[str, ...]) -> None:
    texts = [sentence.text for sentence in OF_SPEC if sentence.section == section]

    missing = [fragment for fragment in fragments if not any(fragment in text for text in texts)]

    assert not missing


@pytest.mark.parametrize("sentence", OF_SPEC, ids=lambda sentence: sentence.id)
def test_level_of_a_sentence_is_its_strongest_keyword(sentence: Sentence) -> None:
    word = strongest_word(sentence.text)

    assert sentence.level in ([word] if word else ["MUST", "SHOULD", "MAY"])


@pytest.mark.parametrize("sentence", load().values(), ids=lambda sentence: sentence.id)
def test_only_the_specification_binds(sentence: Sentence) -> None:
    assert (sentence.level == "CONVENTION") == (sentence.document != "SPEC.md")


@pytest.mark.parametrize("sentence", load().values(), ids=lambda sentence: sentence.id)
def test_no_check_of_plugins_enforces_a_sentence_about_runtimes(sentence: Sentence) -> None:
    assert (sentence.side == "runtime") == sentence.id.startswith("runtime-")
    assert not (sentence.side == "runtime" and sentence.checkable)


def test_documents_stand_together() -> None:
    documents = [document for document, _ in groupby(load().values(), key=lambda sentence: sentence.document)]

    assert documents == ["SPEC.md", "CONVENTIONS.md", "skel", "runtimes"]


def test_loaded_sentences_are_immutable() -> None:
    with pytest.raises(TypeError):
        load()["another"] = load()["exit-code"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("side: plugin, ", "", "sentence 'exit-code' lacks the fields .'side'."),
        ("side: plugin", "side: both, page: '3'", "sentence 'exit-code' has the unknown fields .'page'."),
        ("level: MUST", "level: must", "sentence 'exit-code': level is 'must', which is none of MUST, SHOULD"),
        ("side: plugin", "side: [plugin]", "sentence 'exit-code': side is to be text, not"),
        ("text: A plugin must exit.", "text: ''", "sentence 'exit-code': text is to be text, not ''"),
        (
            "side: plugin",
            "side: plugin, since: '2.0.0'",
            "sentence 'exit-code': since is '2.0.0', which is none of 0.1.0",
        ),
        (
            "side: plugin",
            "side: plugin, weaker: {0.3.0: should}",
            "weaker is to be levels by version, not {'0.3.0': 'sh",
        ),
        ("side: plugin", "side: plugin, weaker: SHOULD", "weaker is to be levels by version, not 'SHOULD'"),
        ("document: SPEC.md", "document: README.md", "sentence 'exit-code': document is 'README.md'"),
        ("id: exit-code", "id: Exit code", "sentence 'Exit code': its id is to be words"),
        ("  sentences:\n    -", "  sentence:\n    -", "a section is to have a list of sentences"),
        ("    -", "    - {id: exit-code, level: MAY, side: both, text: It may.}\n    -", "'exit-code' is there twice"),
    ],
)
def test_a_wrong_entry_is_named(old: str, new: str, complaint: str) -> None:
    assert parse(VALID)["exit-code"].text == "A plugin must exit."

    with pytest.raises(ValueError, match=complaint):
        parse(VALID.replace(old, new, 1))


def test_every_sentence_about_plugins_has_a_check_or_a_reason() -> None:
    enforced = {name for check in all_checks() for name in check.sentences}

    unenforced = [name for name, sentence in load().items() if sentence.checkable and name not in enforced]

    assert not unenforced


def test_uncheckable_sentences_have_no_check() -> None:
    enforced = {name for check in all_checks() for name in check.sentences}

    assert not [name for name in enforced if not load()[name].checkable]
