"""The schedule of faults: a list that depends on nothing but the seed, the duration and the kinds that are possible."""

from __future__ import annotations

import random
from dataclasses import dataclass

NODE_FAULTS = ("kill_node", "freeze_node", "restart_node")
LINK_FAULTS = ("cut_links", "reset_links", "delay_links", "hold_links")
SESSION_FAULTS = ("hold_snapshot", "fill_connections")
SERVER_FAULTS = (
    "kill_primary",
    "kill_postgres",
    "freeze_primary",
    "switch_over",
    "kill_standby",
    "kill_lagging_primary",
)
SINGLE_SERVER_FAULTS = ("crash_server",)

LASTS_S = {
    "kill_node": (1.0, 6.0),
    "freeze_node": (2.0, 20.0),
    "restart_node": (0.0, 0.0),
    "cut_links": (0.5, 8.0),
    "reset_links": (0.0, 0.0),
    "delay_links": (3.0, 10.0),
    "hold_links": (2.0, 12.0),
    "hold_snapshot": (10.0, 40.0),
    "fill_connections": (3.0, 8.0),
    "kill_primary": (5.0, 15.0),
    "kill_postgres": (0.0, 0.0),
    "freeze_primary": (25.0, 40.0),
    "switch_over": (0.0, 0.0),
    "kill_standby": (3.0, 10.0),
    "kill_lagging_primary": (5.0, 10.0),
    "crash_server": (0.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `target` selects the node; for faults of servers it has no meaning."""

    at_s: float
    kind: str
    target: int
    lasts_s: float

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:6.1f} s  {self.kind}{f' node {self.target}' if self.kind in ON_NODES else ''}{lasts}"


ON_NODES = (*NODE_FAULTS, *LINK_FAULTS)


def plan(seed: int, *, duration_s: float, nodes: int, cluster: bool, only: tuple[str, ...] = ()) -> list[Fault]:
    """Return the faults of a run in the order of time. The same arguments give the same list.

    Faults of nodes and links come every few seconds and overlap. Every third fault concerns the servers, which need time to
    recover, so these come one after another.
    """
    source = random.Random(seed)
    servers = SERVER_FAULTS if cluster else SINGLE_SERVER_FAULTS
    others = (*NODE_FAULTS, *LINK_FAULTS, *SESSION_FAULTS)
    if only:
        servers, others = tuple(k for k in servers if k in only), tuple(k for k in others if k in only)
    gap_s = (4.0, 12.0) if cluster else (1.0, 2.5)
    faults: list[Fault] = []
    bag: list[str] = []
    at_s = source.uniform(*gap_s)
    while at_s < duration_s:
        if servers and (not others or len(faults) % 3 == 1):
            if not bag:  # each kind once before any comes again
                bag = source.sample(servers, len(servers))
            kind = bag.pop()
        else:
            kind = source.choice(others)
        scale = 1.0 if cluster else 0.3
        low, high = LASTS_S[kind]
        faults.append(Fault(at_s, kind, source.randrange(nodes), scale * source.uniform(low, high)))
        at_s += source.uniform(*gap_s)
    return faults
