import pytest

from firewall.owner import MAX_LABEL, Owner

LONG_ID = "0123456789abcdef" * 12


def test_a_label_is_readable_and_read_back() -> None:
    owner = Owner("cni-harness", "a" * 64, "eth0")

    assert f"cni-harness/{'a' * 64}/eth0" == owner.label()
    assert owner == Owner.from_label(owner.label())
    assert tuple(Owner.from_label(owner.label()) or ()) == ("cni-harness", "a" * 64, "eth0")


def test_characters_that_nft_cannot_quote_are_escaped() -> None:
    owner = Owner("net", "c1", 'a"b\\%/ü')

    label = owner.label()

    assert label.isascii()
    assert label.isprintable()
    assert not set('"\\ ') & set(label)
    assert tuple(owner) == tuple(Owner.from_label(label) or ())


@pytest.mark.parametrize(
    "owner", [Owner("net", LONG_ID, "eth0"), Owner("n" * 200, LONG_ID, "eth0"), Owner("n" * 200, "c", '"' * 15)]
)
def test_a_label_that_would_be_too_long_keeps_its_owner_recognizable(owner: Owner) -> None:
    recorded = Owner.from_label(owner.label())

    assert len(owner.label()) <= MAX_LABEL
    assert recorded is not None
    assert owner == recorded
    assert hash(owner) == hash(recorded)
    assert owner.ifname == recorded.ifname
    assert recorded.in_network(owner.network)
    assert not recorded.in_network("another")
    assert owner != owner._replace(container_id=owner.container_id + "0")
    assert owner != owner._replace(network=owner.network + "0")


def test_label_shortens_the_container_id_before_the_network_name() -> None:
    recorded = Owner.from_label(Owner("net", LONG_ID, "eth0").label())

    assert recorded is not None
    assert recorded.network == "net"


@pytest.mark.parametrize("label", ["", "somebody's rule", "a/b", "a/b/c/d"])
def test_foreign_comment_names_no_owner(label: str) -> None:
    assert Owner.from_label(label) is None
