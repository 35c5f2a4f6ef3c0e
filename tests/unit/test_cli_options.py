"""The command line without a kernel: options, errors, formats, and what needs no root."""

import json
import os
import re
import stat
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from click import BadParameter, Context, Option

from harness.cli.command_line import Verbs
from harness.cli.option_types import Duration
from harness.install.files import write_launchers
from harness.snapshot import Snapshot
from launch import PLUGINS
from netlink.namespace import remove_namespace
from skel.versions import REFERENCE_RELEASE, SUPPORTED
from tests.cli import REFERENCE_BIN_DIR, ROOT, Cli, bridge_network, on_a_terminal
from tests.nodes import HANG


@pytest.fixture
def cli(tmp_path: Path, bin_dir: Path) -> Iterator[Cli]:
    made = Cli(tmp_path / "cli", bin_dir)
    made.configure(bridge_network("net"))
    yield made
    remove_namespace(f"/run/netns/{made.node}")  # which a test that fails may have made


@pytest.fixture
def unprivileged_cli() -> Iterator[Cli]:
    """A command line that is run by somebody who is not root, with our plugins."""
    # pytest keeps its own temporary folders from everybody else.
    with TemporaryDirectory(prefix="cni-harness-test-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        made = Cli(folder / "cli", folder / "bin")
        made.configure(bridge_network("net"))
        write_launchers(made.bin_dir)
        if os.geteuid() == 0:
            made.prefix = ["/usr/bin/setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            if not all(parent.stat().st_mode & stat.S_IXOTH for parent in (ROOT, *ROOT.parents)):
                # Nobody may not enter the folder of this checkout, so this one may read everything.
                made.prefix += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        yield made


def names(stdout: str) -> list[str]:
    return [network["name"] for network in json.loads(stdout)["networks"]]


def test_shared_options_stand_before_or_after_the_verb(cli: Cli) -> None:
    folder = str(cli.conf_dir)

    before = cli.run("--conf-dir", folder, "-o", "json", "networks", env={"NETCONFPATH": "/nowhere"})
    after = cli.run("networks", "--conf-dir", folder, "-o", "json", env={"NETCONFPATH": "/nowhere"})

    assert names(before.stdout) == names(after.stdout) == ["net"]


def test_later_option_counts(cli: Cli) -> None:
    run = cli.run("--conf-dir", "/nowhere", "-o", "yaml", "networks", "--conf-dir", str(cli.conf_dir), "-o", "json")

    assert names(run.stdout) == ["net"]


def test_variable_does_not_overrule_an_option_before_the_verb(cli: Cli) -> None:
    run = cli.run("-o", "json", "networks", env={"CNI_HARNESS_OUTPUT": "yaml"})

    assert names(run.stdout) == ["net"]


def test_yaml_and_json_say_the_same(cli: Cli) -> None:
    as_json, as_yaml = (cli.run("networks", "-o", output).stdout for output in ("json", "yaml"))

    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_networks_shows_version_plugins_and_file_of_a_list(cli: Cli) -> None:
    (network,) = cli.json("networks")["networks"]

    assert network == {
        "name": "net",
        "cniVersion": "1.0.0",
        "plugins": ["bridge"],
        "capabilities": [],
        "file": str(cli.conf_dir / "00-net.conflist"),
    }


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["no-such-verb"], 2, "Error: No such command 'no-such-verb' (see `cni-harness --help`)"),
        (["ad", "pod1"], 2, "Error: No such command 'ad': did you mean add? (see `cni-harness --help`)"),
        (
            ["inspct", "pod1"],
            2,
            "Error: No such command 'inspct': did you mean inspect or install or list? (see `cni-harness --help`)",
        ),
        (["descibe", "pod1"], 2, "Error: No such command 'descibe': did you mean describe? (see"),
        (["rm"], 2, "Error: name pods, or say --all (see `cni-harness del --help`)"),
        (["list", "--bin-dir", "/usr:/no/where"], 2, "Error: Invalid value for '--bin-dir': no folder /no/where (see"),
        (["--bin-dir", "/no/where", "list"], 2, "Error: Invalid value for '--bin-dir': no folder /no/where (see"),
        (["add"], 2, "Error: Missing argument 'POD...'. (see `cni-harness add --help`)"),
        (["list", "-o", "xml"], 2, "Error: Invalid value for '-o'"),
        (["networks", "--conf-dir", "/nowhere"], 1, "Error: /nowhere: no such folder"),
        (["del"], 2, "Error: name pods, or say --all (see `cni-harness del --help`)"),
        (["list", "--node", "a/b"], 1, "Error: node name 'a/b': wanted letters"),
    ],
)
def test_error_is_one_line_on_stderr(cli: Cli, arguments: list[str], code: int, message: str) -> None:
    failed = cli.run(*arguments, check=False)

    assert (failed.returncode, failed.stdout) == (code, "")
    assert failed.stderr.startswith(message)
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--node", ""), ("--bin-dir", ""), ("--bin-dir", "::"), ("--conf-dir", ""), ("--state-dir", "")],
)
@pytest.mark.parametrize("before", [True, False])
def test_empty_value_is_refused_and_not_taken_for_the_default(
    cli: Cli, option: str, value: str, *, before: bool
) -> None:
    arguments = [option, value, "networks"] if before else ["networks", option, value]

    failed = cli.run(*arguments, check=False)

    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith(f"Error: Invalid value for '{option}'")
    assert f": '{value}' names nothing" in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_empty_variable_counts_as_unset(cli: Cli) -> None:
    empty = dict.fromkeys(["CNI_HARNESS_NODE", "CNI_HARNESS_OUTPUT", "CNI_PATH"], "")

    run = cli.run("networks", "-o", "json", env=empty)

    assert names(run.stdout) == ["net"]


@pytest.mark.mostly_slow(4, "each option; a part is in make test")
@pytest.mark.sudo
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Pod_1"], "pod name 'Pod_1': wanted lower-case letters"),
        (["pod1", "--namespace", "a/b"], "namespace 'a/b': wanted lower-case letters"),
        (
            ["pod1", "--network", "other"],
            "no network named other (there are: net; of this project: cni-harness, bridge-ipv4, ",
        ),
        (["pod1", "--ifname", "a" * 16], "--ifname aaaaaaaaaaaaaaaa: it is longer than 15 bytes"),
        (["pod1", "--ip", "10.1"], "--ip 10.1: wanted an IP address"),
        (["pod1", "--mac", "02:00"], '--mac: expected a MAC address, got "02:00"'),
        (["pod1", "-p", "80"], "-p 80: wanted [hostIP:]hostPort:containerPort[/protocol]"),
        (["pod1", "--arg", "A"], "--arg A: wanted KEY=VALUE"),
        (["pod1", "--mac", "01:00:5e:00:00:01"], "--mac 01:00:5e:00:00:01: that is a multicast address"),
        (["pod1", "--mac", ""], '--mac: expected a MAC address, got ""'),
        (["pod1", "--cap", "a=b"], "--cap a=b: wanted NAME=JSON, but b is not JSON; a string is written a='\"b\"'\n"),
        (["pod1", "--cap", "a={"], "--cap a={: wanted NAME=JSON, but { is not JSON\n"),
        (["pod1", "--cap", 'a={"b": NaN}'], '--cap a={"b": NaN}: NaN is not a number of JSON'),
        (["pod1", "--cap", "a=-Infinity"], "--cap a=-Infinity: -Infinity is not a number of JSON"),
        (["pod1", "--cap", "a=[1e999]"], "--cap a=[1e999]: 1e999 is beyond a 64-bit number"),
        (["pod1", "--node", ""], "Invalid value for '--node'"),
        (["pod1", "pod2", "--ip", "10.77.0.9"], "--ip, --mac and -p are for one pod"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--diff"]])
def test_add_refuses_before_it_makes_anything(cli: Cli, arguments: list[str], message: str, option: list[str]) -> None:
    failed = cli.run("add", *arguments, *option, check=False)

    assert failed.returncode in {1, 2}
    assert failed.stderr.startswith(f"Error: {message}")
    assert failed.stderr.count("\n") == 1
    assert not Path(f"/run/netns/{cli.node}").exists()
    assert not cli.state_dir.exists()


@pytest.mark.parametrize(
    "verb", [["add", "p"], ["del", "p"], ["check"], ["inspect", "p"], ["exec", "p", "x"], ["gc"], ["snapshot"]]
)
def test_verbs_that_need_root_are_refused_in_one_line(unprivileged_cli: Cli, verb: list[str]) -> None:
    failed = unprivileged_cli.run(*verb, check=False)

    assert failed.returncode == 1
    assert failed.stderr.startswith(f"Error: `cni-harness {verb[0]}` needs root: it ")
    assert failed.stderr.count("\n") == 1


def test_diff_with_the_present_state_needs_root(unprivileged_cli: Cli) -> None:
    empty = json.dumps(Snapshot({}).to_document())

    failed = unprivileged_cli.run("diff", "-", stdin=empty, check=False)

    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == "Error: `cni-harness diff` needs root: it looks into network namespaces\n"


def test_version_needs_no_root(unprivileged_cli: Cli) -> None:
    shown = json.loads(unprivileged_cli.run("version", "-o", "json").stdout)

    assert shown["cniVersions"][-1] == "1.1.0"
    assert {plugin["type"] for plugin in shown["plugins"]} >= {"bridge", "host-local", "loopback", "noop"}
    assert all("1.1.0" in plugin["cniVersions"] for plugin in shown["plugins"])


def test_version_without_any_plugin_shows_our_own(unprivileged_cli: Cli) -> None:
    empty = unprivileged_cli.folder / "empty"
    empty.mkdir()

    shown = json.loads(unprivileged_cli.run("version", "-o", "json", "--bin-dir", str(empty)).stdout)

    assert {plugin["type"] for plugin in shown["plugins"]} == set(PLUGINS)
    assert list(empty.iterdir()) == []


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.skipif(not REFERENCE_BIN_DIR.exists(), reason="Debian's containernetworking-plugins are not installed")
def test_version_of_the_reference_plugins(cli: Cli) -> None:
    shown = cli.json("version", "--bin-dir", str(REFERENCE_BIN_DIR))

    assert all("1.0.0" in plugin["cniVersions"] for plugin in shown["plugins"])
    (suite,) = {tuple(plugin["suite"].values()) for plugin in shown["plugins"]}
    assert suite[0] == "containernetworking-plugins"
    assert suite[1][0].isdecimal()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_version_lists_a_program_that_is_no_plugin_with_an_error(cli: Cli) -> None:
    cli.plugin("wrong", "echo nonsense")

    (wrong,) = [plugin for plugin in cli.json("version")["plugins"] if plugin["type"] == "wrong"]

    assert wrong["error"].startswith("plugin wrong: VERSION failed")


def test_validate_needs_no_root(unprivileged_cli: Cli) -> None:
    assert unprivileged_cli.run("validate").stdout.splitlines()[1].split()[:2] == ["net", "ok"]


def test_validate_names_each_problem(cli: Cli) -> None:
    cli.configure(bridge_network("net"), {"cniVersion": "1.0.0", "name": "bad", "plugins": [{"type": "missing"}]})
    (cli.conf_dir / "99-broken.conflist").write_text("{")

    failed = cli.run("validate", "-o", "json", check=False)

    assert failed.returncode == 1
    found = {network["name"]: network for network in json.loads(failed.stdout)["networks"]}
    assert found["net"]["problems"] == []
    assert 'no executable "missing"' in " ".join(found["bad"]["problems"])
    assert found[""]["file"] == str(cli.conf_dir / "99-broken.conflist")
    assert found[""]["problems"][0].startswith("line 1, column 2: not JSON")


def test_validate_says_of_each_file_whether_it_can_be_used(cli: Cli) -> None:
    mistyped = bridge_network("odd", ipMask=True)
    cli.configure(bridge_network("net"), mistyped, bridge_network("bad", vlan=99999))
    (cli.conf_dir / "99-broken.conflist").write_text("{")

    lines = cli.run("validate", check=False).stdout.splitlines()

    assert {tuple(line.split()[:2]) for line in lines} == {
        ("NETWORK", "VERDICT"),
        ("net", "ok"),
        ("odd", "warning"),
        ("bad", "wrong"),
        ("-", "unusable"),
    }


def test_validate_fails_for_bad_values_and_not_for_unknown_keys(cli: Cli) -> None:
    path = cli.folder / "one.conflist"
    path.write_text(json.dumps(bridge_network("one", ipMask=True)))

    warned = cli.json("validate", str(path))["networks"][0]

    assert warned["problems"] == []
    assert warned["warnings"] == ['plugins[0].ipMask (bridge): unknown key, its value is true; did you mean "ipMasq"?']
    path.write_text(json.dumps(bridge_network("one", subnet="10.95.0.0/33")))
    failed = cli.run("validate", str(path), "-o", "json", check=False)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["networks"][0]["problems"] == [
        'plugins[0].ipam.ranges[0][0].subnet (bridge): expected a CIDR, got "10.95.0.0/33"'
    ]


def test_validate_names_a_list_that_another_of_its_name_hides(cli: Cli) -> None:
    hidden = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "missing"}]}
    (cli.conf_dir / "99-net.conflist").write_text(json.dumps(hidden))

    failed = cli.run("validate", "-o", "json", check=False)

    assert failed.returncode == 1
    used, other = json.loads(failed.stdout)["networks"]
    assert (used["file"], used["problems"]) == (str(cli.conf_dir / "00-net.conflist"), [])
    assert (other["name"], other["file"]) == ("net", str(cli.conf_dir / "99-net.conflist"))
    assert other["problems"][0] == f"not used: the network of this name is that of {used['file']}"
    assert 'no executable "missing"' in other["problems"][1]


def test_validate_of_files_with_one_name_compares_none(cli: Cli) -> None:
    (other := cli.folder / "other.conflist").write_text(json.dumps(bridge_network("net")))

    cli.run("validate", str(cli.conf_dir / "00-net.conflist"), str(other))


@pytest.mark.parametrize("verb", ["networks", "validate"])
def test_folder_without_lists_is_an_error(cli: Cli, verb: str) -> None:
    empty = cli.folder / "empty"
    empty.mkdir()
    (empty / "10-net.conflist.bak").write_text(json.dumps(bridge_network("net")))

    failed = cli.run(verb, "--conf-dir", str(empty), check=False)

    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == f"Error: {empty}: no network lists (--conf-dir, or NETCONFPATH in the environment)\n"


def test_validate_of_one_file(cli: Cli) -> None:
    path = cli.folder / "one.conflist"
    path.write_text(json.dumps(bridge_network("one") | {"plugins": []}))

    failed = cli.run("validate", str(path), check=False)

    assert failed.returncode == 1
    assert "plugins" in failed.stdout


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_own_lists_are_valid(cli: Cli) -> None:
    cli.run("validate", *map(str, (ROOT / "conf").glob("*.conflist")))


def test_output_that_is_no_terminal_has_no_colour(cli: Cli) -> None:
    assert "\x1b" not in cli.run("networks", env={"TERM": "xterm"}).stdout


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_counts_on_a_terminal(cli: Cli, variables: dict[str, str], *, coloured: bool) -> None:
    assert ("\x1b[1m" in on_a_terminal(cli, "networks", env=variables)) is coloured


def test_rich_is_for_terminals(cli: Cli) -> None:
    variables = {"PYTHONPROFILEIMPORTTIME": "1"}

    assert "rich" not in cli.run("networks", env=variables).stderr
    assert "rich" in on_a_terminal(cli, "networks", env=variables)


def test_program_alone_prints_its_help(cli: Cli) -> None:
    alone, asked = cli.run(), cli.run("--help")

    assert (alone.stdout, alone.stderr) == (asked.stdout, "")
    assert alone.stdout.startswith("Usage: cni-harness [OPTIONS] VERB ...\n")
    assert max(map(len, alone.stdout.splitlines())) <= 80


def test_help_has_a_line_for_each_verb_in_groups(cli: Cli) -> None:
    lines = cli.run().stdout.splitlines()

    modules = [
        path
        for path in (ROOT / "harness/cli").glob("*.py")
        if re.search("^(def )?command\\b", path.read_text(), re.MULTILINE)
    ]
    verbs = Verbs().list_commands(Context(Verbs()))
    listed = [line for line in lines if line.startswith(tuple(f"  {verb}{sign}" for verb in verbs for sign in ", "))]
    assert len(listed) == len(verbs) == len(modules)
    assert [line for line in lines if line.endswith(":") and not line.startswith(" ")][:2] == ["Pods:", "Manifests:"]
    assert any(line.startswith("  list, ls ") for line in lines)


def test_help_loads_no_verb(cli: Cli) -> None:
    loaded = cli.run(env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr

    assert "harness.cli.options\n" in loaded
    for verb in ("add", "delete", "conformance", "install", "serve", "snapshot", "version"):
        assert f"harness.cli.{verb}\n" not in loaded


def test_version_option(cli: Cli) -> None:
    assert cli.run("--version").stdout == f"cni-harness {version('cni-harness')}\n"


@pytest.mark.parametrize(("alias", "verb"), [("ls", "list"), ("rm", "del")])
def test_alias_is_the_verb(cli: Cli, alias: str, verb: str) -> None:
    assert cli.run(alias, "--help").stdout == cli.run(verb, "--help").stdout


def test_missing_folder_of_the_environment_is_passed_over(cli: Cli) -> None:
    cli.run("networks", env={"CNI_PATH": f"/no/where:{cli.bin_dir}"})


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_catalogue_of_checks_is_the_same_in_yaml(cli: Cli) -> None:
    as_json, as_yaml = (cli.run("conformance", "--list", "-o", output).stdout for output in ("json", "yaml"))

    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_list_of_a_mistyped_node_says_so(cli: Cli) -> None:
    listed = cli.run("list", "--node", "typo", "-o", "json")

    assert json.loads(listed.stdout) == {"pods": []}
    assert listed.stderr == "No pods: there is no node typo\n"


@pytest.mark.sudo
def test_status_and_gc_of_a_node_that_is_not_made_yet(cli: Cli) -> None:
    freed, failed = cli.run("gc"), cli.run("status", check=False)

    assert (freed.stdout, freed.stderr) == ("", f"There is no node {cli.node}: nothing to free\n")
    assert failed.stderr == f"Error: there is no node {cli.node}: its first `cni-harness add` makes it\n"
    assert not cli.state_dir.exists()


@pytest.mark.sudo
def test_bench_of_a_missing_folder_names_it(cli: Cli) -> None:
    failed = cli.run("bench", "--bin-dir", "x=/no/where", check=False)

    assert failed.stderr.startswith("Error: --bin-dir x=/no/where: no folder /no/where (see")


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_version_shows_the_release_of_each_plugin(cli: Cli) -> None:
    answer = '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}'
    about = '[ "$CNI_COMMAND" ] || { echo "CNI theirs plugin v1.7.1" >&2; exit; }'
    cli.plugin("theirs", f"cat > /dev/null; {about}; echo '{answer}'")

    shown = {plugin["type"]: plugin["version"] for plugin in cli.json("version")["plugins"]}

    assert shown["theirs"] == "1.7.1"
    assert shown["bridge"][0].isdecimal()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_version_tells_product_specification_and_suites_apart(cli: Cli) -> None:
    cli.plugin("theirs", "exit 1")

    product, specification, release, _, headings, *rows = cli.run("version").stdout.splitlines()
    document = cli.json("version")

    own = version("cni-harness")
    assert product == f"cni-harness {own}"
    assert specification == f"Versions of the CNI specification: {', '.join(SUPPORTED)}"
    assert f" {REFERENCE_RELEASE}: the release of containernetworking/plugins" in release
    assert re.split("  +", headings) == ["PLUGIN", "RELEASE", "SUITE", "CNI VERSIONS", "FOLDER"]
    cells = {row[0]: row[1:3] for row in (re.split("  +", row) for row in rows)}
    assert (cells["bridge"], cells["theirs"]) == ([REFERENCE_RELEASE, f"cni-harness {own}"], ["-", "unknown"])
    suites = {plugin["type"]: plugin["suite"] for plugin in document["plugins"]}
    assert (suites["bridge"], suites["theirs"]) == (
        {"name": "cni-harness", "version": own},
        {"name": "unknown", "version": ""},
    )
    assert (document["version"], document["referenceRelease"]) == (own, REFERENCE_RELEASE)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("verb", ["validate", "version"])
def test_only_add_says_that_the_projects_own_serve(cli: Cli, verb: str) -> None:
    unconfigured = {"CNI_PATH": str(cli.conf_dir)}

    verbose, quiet = cli.run(verb, "-v", env=unconfigured), cli.run(verb, env=unconfigured)

    assert "this project's own" in verbose.stderr
    assert "this project's own" not in quiet.stderr


def test_closed_output_is_no_traceback(cli: Cli) -> None:
    with cli.background("networks") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(HANG)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_shell_completes_verbs_and_pods(cli: Cli) -> None:
    folder = cli.node_dir / "pods" / "default_pod1"
    folder.mkdir(parents=True)
    record = dict.fromkeys(["uid", "containerID", "netns", "state", "created"], "x")
    (folder / "pod.json").write_text(json.dumps(record | {"name": "pod1", "namespace": "default"}))
    unreadable = folder.with_name("default_pod2")
    unreadable.mkdir()
    (unreadable / "pod.json").write_bytes(b"")

    def complete(words: str, position: int) -> list[str]:
        variables = {"_CNI_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        answer = cli.run(env=variables, check=False).stdout
        return [line.partition(",")[2] for line in answer.split()]

    assert complete("cni-harness ins", 1) == ["inspect", "install"]
    assert complete("cni-harness del p", 2) == ["pod1", "pod2"]
    assert complete("cni-harness del --namespace other p", 4) == []
    assert complete("cni-harness rm p", 2) == ["pod1", "pod2"]
    assert complete("cni-harness add --network n", 3) == ["net"]
    assert complete("cni-harness add --network cni-l", 3) == ["cni-loopback"]
    assert complete("cni-harness networks n", 2) == ["net"]
    assert complete("cni-harness --node t", 2) == [cli.node]
    assert complete("cni-harness add --nod", 2) == ["--node"]
    assert complete("cni-harness conformance --check del-t", 3) == ["del-twice"]


def test_completion_prints_no_errors(cli: Cli) -> None:
    words = "cni-harness --conf-dir /no/where add --network n"
    variables = {"_CNI_HARNESS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "5"}

    answer = cli.run(env=variables, check=False)

    assert (answer.stdout.strip(), answer.stderr) == ("", "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12", 12), ("0.5", 0.5), (".5", 0.5), ("12s", 12), ("1m", 60), ("1m30s", 90), ("1h", 3600), ("500ms", 0.5)],
)
def test_duration_is_seconds_or_a_time_of_kubectl(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "inf", "nan", "1m30", "1 m", "s1"])
def test_duration_in_another_form_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(BadParameter, match=f"^{re.escape(repr(text))} is no time: wanted seconds, as 12, 12s or 1m30s"):
        Duration().convert(text, None, None)


def test_duration_is_positive_or_whole_as_the_option_demands() -> None:
    with pytest.raises(BadParameter, match="'0s': wanted more than 0 seconds"):
        Duration(positive=True).convert("0s", None, None)
    with pytest.raises(BadParameter, match=r"'1\.5s': wanted whole seconds"):
        Duration(whole=True).convert("1.5s", None, None)
    assert Duration(whole=True).convert("1m", None, None) == 60


def all_options() -> Iterator[tuple[str, Option]]:
    group = Verbs("cni-harness")
    context = Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from ((name, each) for each in command.params if isinstance(each, Option))


def test_namespace_has_a_short_form_in_every_verb() -> None:
    options = [(name, each) for name, each in all_options() if "--namespace" in each.opts]

    assert len(options) > 10
    assert [name for name, each in options if "-n" not in each.opts] == []


def test_every_time_is_a_duration() -> None:
    named = re.compile(r"timeout|limit|idle|period|min-age")
    options = [(name, each) for name, each in all_options() if named.search(each.opts[-1])]

    assert {name for name, _ in options} >= {"run", "delete", "kubelet", "serve", "conformance"}
    assert [(name, each.opts) for name, each in options if not isinstance(each.type, Duration)] == []
