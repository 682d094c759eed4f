"""Client for the HTTP API of an Onceward server. It contains no engine: it needs httpx and nothing else."""

from onceward_client.client import AsyncClient, Client
from onceward_client.errors import ConnectionFailed, OncewardError, VerificationFailed
from onceward_client.webhooks import verify_webhook
from onceward_client.worker import JobContext, LeaseLost, Permanent, RetryAfter, Worker

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Client",
    "ConnectionFailed",
    "JobContext",
    "LeaseLost",
    "OncewardError",
    "Permanent",
    "RetryAfter",
    "VerificationFailed",
    "Worker",
    "verify_webhook",
]
