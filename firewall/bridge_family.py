"""The kernel's part of nftables for frames between the ports of bridges: a kernel may lack it.

It answers EOPNOTSUPP or EAFNOSUPPORT if the family was left out, and ENOENT if a module is missing. ENOENT is also the
answer if another process has removed an object.
"""

import errno

from firewall.tables import Tables
from lean.typing import Final
from netlink.nft_transaction import Hook
from netlink.nft_wire import BRIDGE
from netlink.nftables import Table
from netlink.wire import NetlinkError

_TRIAL: Final = "cni_harness_trial"
_LACKS: Final = {errno.ENOENT, errno.EOPNOTSUPP, errno.EAFNOSUPPORT}


def demand_bridge_family(tables: Tables, hook: Hook, doing: str) -> None:
    """Raise NetlinkError (EOPNOTSUPP) that names the option of the kernel if it cannot make a chain for bridges.

    The chain is made and removed in one transaction, so it filters nothing. Call it after an error, which `doing` was
    about: others are told of this transaction.
    """
    table = Table(tables.netfilter(), BRIDGE, _TRIAL)
    transaction = table.transaction()
    transaction.add_table()
    transaction.add_chain("trial", hook)
    transaction.delete_table(contents=True)
    try:
        table.commit(transaction, doing=doing)
    except NetlinkError as error:
        if error.errno in _LACKS:
            lack = "this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE)"
            raise NetlinkError(errno.EOPNOTSUPP, f"{doing}: {lack}") from error
        raise
