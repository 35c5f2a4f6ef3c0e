"""The configuration of the sbr plugin."""

from skel import Address, Config, address, boolean, expected, field, integer_between, list_of


class SbrConfig(Config):
    """Keys of the reference plugin."""

    table: int | None = field(integer_between(1, 2**32 - 1, "the number of a routing table"), default=None)
    """Only add rules to this table."""
    gateways: list[Address] = field(list_of(address), default=list)
    """At most one of each family; they replace those of the addresses."""
    add_source_hints: bool = field(boolean, default=False)

    def check_for_add(self) -> None:
        """Raise CniError (7) for two gateways of one family."""
        if len({gateway.version for gateway in self.gateways}) < len(self.gateways):
            raise expected("at most one address of each family", list(map(str, self.gateways)), "gateways")

    def gateway(self, version: int) -> Address | None:
        """Return the configured gateway of a family."""
        return next((gateway for gateway in self.gateways if gateway.version == version), None)
