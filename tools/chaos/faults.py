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
POOL_FAULTS = ("fill_pools", "kill_command")
NODE_CLOCK_FAULTS = ("jump_node_clock", "drift_node_clock")
SERVER_CLOCK_FAULTS = ("jump_server_clock",)

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
    "fill_pools": (2.0, 6.0),
    "kill_command": (0.5, 4.0),
    "jump_node_clock": (5.0, 25.0),
    "drift_node_clock": (10.0, 30.0),
    "jump_server_clock": (8.0, 25.0),
}

MAX_CRASHES = 2
"""A single server crashes twice at most: work that was running at three crashes of its server is a dead letter, by design."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `target` selects the node, or the server whose clock jumps; for other faults it has no meaning."""

    at_s: float
    kind: str
    target: int
    lasts_s: float
    by_s: float = 0.0
    """How far a clock is moved."""

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        by = f" by {self.by_s:+.1f} s" if self.by_s else ""
        return f"{self.at_s:6.1f} s  {self.kind}{f' node {self.target}' if self.kind in ON_NODES else ''}{by}{lasts}"


ON_NODES = (*NODE_FAULTS, *LINK_FAULTS, *NODE_CLOCK_FAULTS)


def plan(seed: int, *, duration_s: float, nodes: int, cluster: bool, only: tuple[str, ...] = ()) -> list[Fault]:
    """Return the faults of a run in the order of time. The same arguments give the same list.

    Faults of nodes and links come every few seconds and overlap. Every third fault concerns the servers, which need time to
    recover, so these come one after another. Clocks are moved and pools filled beside all of them.
    """
    scale = 1.0 if cluster else 0.3
    faults = _processes_and_servers(seed, duration_s, nodes, cluster, scale, only)
    faults += _clocks_and_pools(seed, duration_s, nodes, cluster, scale, only)
    return sorted(faults, key=lambda fault: fault.at_s)


def _processes_and_servers(
    seed: int, duration_s: float, nodes: int, cluster: bool, scale: float, only: tuple[str, ...]
) -> list[Fault]:
    source = random.Random(seed)
    servers = SERVER_FAULTS if cluster else SINGLE_SERVER_FAULTS
    others = (*NODE_FAULTS, *LINK_FAULTS, *SESSION_FAULTS)
    if only:
        servers, others = tuple(k for k in servers if k in only), tuple(k for k in others if k in only)
    gap_s = (4.0, 12.0) if cluster else (1.0, 2.5)
    faults: list[Fault] = []
    bag: list[str] = []
    crashes = 0
    at_s = source.uniform(*gap_s)
    while at_s < duration_s:
        if servers and (not others or len(faults) % 3 == 1) and (cluster or crashes < MAX_CRASHES):
            crashes += 1
            if not bag:  # each kind once before any comes again
                bag = source.sample(servers, len(servers))
            kind = bag.pop()
        else:
            kind = source.choice(others)
        low, high = LASTS_S[kind]
        faults.append(Fault(at_s, kind, source.randrange(nodes), scale * source.uniform(low, high)))
        at_s += source.uniform(*gap_s)
    return faults


def _clocks_and_pools(
    seed: int, duration_s: float, nodes: int, cluster: bool, scale: float, only: tuple[str, ...]
) -> list[Fault]:
    """Clocks jump by three seconds to two hours, forward and back, or drift by a few seconds."""
    source = random.Random(f"{seed} clocks")
    kinds = (*POOL_FAULTS, *NODE_CLOCK_FAULTS, *(SERVER_CLOCK_FAULTS if cluster else ()))
    kinds = tuple(kind for kind in kinds if not only or kind in only)
    if not kinds:
        return []
    gap_s = (8.0, 20.0) if cluster else (1.5, 4.0)
    faults: list[Fault] = []
    bag: list[str] = []
    at_s = source.uniform(*gap_s)
    while at_s < duration_s:
        bag = bag or source.sample(kinds, len(kinds))
        kind = bag.pop()
        lasts_s = scale * source.uniform(*LASTS_S[kind])
        by_s = source.choice((-1, 1)) * (5.0 if kind.startswith("drift") else 10 ** source.uniform(0.5, 3.9))
        target = source.randrange(nodes)
        faults.append(Fault(at_s, kind, target, lasts_s, 0.0 if kind in POOL_FAULTS else by_s))
        at_s += source.uniform(*gap_s)
    return faults
