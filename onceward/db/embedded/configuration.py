"""The settings of the embedded server."""

from __future__ import annotations

import psutil

MIB = 1024 * 1024
PORT = 5432


def configuration(*, socket_dir: str, fsync: bool) -> str:
    """Return the text of `onceward.conf`, which the cluster's own `postgresql.conf` includes."""
    memory = psutil.virtual_memory().total
    settings = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": socket_dir,
        "unix_socket_permissions": "0700",
        "max_connections": 300,
        "shared_buffers": f"{max(128, min(1024, memory // 8 // MIB)) if fsync else 128}MB",
        "effective_cache_size": f"{max(512, memory // 2 // MIB)}MB",
        "work_mem": "16MB",
        "maintenance_work_mem": "128MB",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "autovacuum_naptime": "10s" if fsync else "1h",  # tests have many small databases, and none lives for an hour
        "autovacuum_vacuum_cost_limit": 2000,
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",  # the text of a failed statement may contain secrets
        "fsync": "on" if fsync else "off",
        "full_page_writes": "on" if fsync else "off",
        "synchronous_commit": "on" if fsync else "off",
    }
    head = "# Written by onceward at every start.\n"
    return head + "".join(f"{name} = '{value}'\n" for name, value in settings.items())
