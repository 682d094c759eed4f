"""Logs, metrics and tracing for operators. This package imports no other package of Onceward."""
# pyright: reportUnusedImport=false

from onceward.telemetry.logs import bind, configure_logging, get_logger
from onceward.telemetry.tracing import configure_tracing, span

__all__ = [
    "bind",
    "get_logger",
]
