"""Whatever comes, by chance: one answer, and no exception."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skel import CniError
from tests.unit.sample_plugin import Sample, configuration, sample_result
from tests.unit.test_skel_dispatch import MuteError

VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS")
ROUNDS = 20_000
# ruff: noqa: SIM905 -- words read better in lines
KEYS = (
    "cniVersion name type ipam dns capabilities prevResult bridge backend enabled labels mac mtu rate source tags "
    "ranges subnet gateway nameservers domain interfaces ips routes address interface ip4 ip6 ip dst gw mtu version "
    "cni.dev/valid-attachments cni.dev/attachments containerID ifname NAME Ips \u017f K\u212a"
).split()
STRINGS = (
    "1.1.0 0.4.0 0.2.0 9.9.9 net1 ../x 10.1.0.0/16 10.1.0.5 fd00::/64 ::ffff:1.2.3.4/99 02:00:00:00:00:05 eth0 "
    "nftables \ud800 \udcff \u0000 \u00e9\u0301 \U0001f600 0.0.0.0/0 % / "
).split(" ")


def any_json(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(10 if depth < 4 else 7)
    if kind < 7:
        scalars = (None, True, False, 0, -1, 2**63, 1.5, 1e300, chance.choice(STRINGS), chance.choice(STRINGS))
        return chance.choice(scalars)
    if kind == 7:
        return [any_json(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(KEYS): any_json(chance, depth + 1) for _ in range(chance.randrange(6))}


def any_stdin(chance: random.Random) -> bytes:
    config = any_json(chance)
    if isinstance(config, dict) and chance.random() < 0.9:
        config = configuration(cniVersion=chance.choice(("1.1.0", "1.0.0", "0.4.0", "0.2.0"))) | config
    text = bytearray(json.dumps(config, ensure_ascii=chance.random() < 0.7).encode(errors="surrogatepass"))
    for _ in range(chance.choice((0, 0, 0, 1, 8))):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return bytes(text[: chance.randrange(len(text))]) if chance.random() < 0.1 else bytes(text)


def any_environ(chance: random.Random) -> dict[str, str | None]:
    values = ("", None, "eth0", "\udcff", "a=b", "IP=1", "IgnoreUnknown=1;A=2", "/proc/self/ns/net", "\n", "0" * 5000)
    names = ("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE", "TRACEPARENT")
    return {name: chance.choice(values) for name in names if chance.random() < 0.1}


def any_behaviour(chance: random.Random) -> Callable[[Any], object]:
    def behave(args: Any) -> object:
        args.log(f"{args.config} {args.prev_result}")
        if chance.random() < 0.2:
            raise chance.choice((CniError(7, "\ud800"), ValueError("\udcff\n"), SystemExit(0), MuteError()))
        return sample_result() if args.verb == "ADD" else None

    return behave


@pytest.mark.mostly_slow(2, "random inputs with two seeds; one is in make test")
@pytest.mark.parametrize("seed", range(2))
def test_random_input_gets_exactly_one_answer(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a failure must be repeatable
    sample = Sample(tmp_path, behave=any_behaviour(chance))
    seen = set()
    for rounds in range(ROUNDS):
        verb = chance.choice((*VERBS, "VERSION", "REPAIR", "", "\udcff"))
        stdin = any_stdin(chance)

        outcome = sample.run(verb, stdin, any_environ(chance))

        answer = json.loads(outcome.stdout) if outcome.stdout else {}
        failed = "code" in answer
        seen.add((verb, answer.get("code")))
        assert outcome.code == (1 if failed else 0), (seed, rounds, stdin)
        assert bool(outcome.stdout) == (failed or verb in {"ADD", "VERSION"}), (seed, rounds, stdin)
        assert b"Traceback" not in outcome.stdout
        assert outcome.stderr.endswith(b"\n") or not outcome.stderr

    # The generator reaches the plugin with every verb, and every code that skel itself raises.
    assert {(verb, None) for verb in (*VERBS, "VERSION", "")} <= seen
    assert {code for _, code in seen} >= {None, 1, 4, 6, 7, 8, 999}
