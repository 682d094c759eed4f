"""An app whose jobs try every way out of a rehearsal that does not pass our own clients."""

from __future__ import annotations

import _thread
import asyncio
import multiprocessing
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import requests

from onceward import Onceward

app = Onceward("leaks")
OLDER = ThreadPoolExecutor(1)
OLDER.submit(int).result()  # its thread is older than every rehearsal


def post(port: int) -> None:
    requests.post(f"http://127.0.0.1:{port}/pay", timeout=2)


async def _in_default_executor(port: int) -> None:
    await asyncio.get_running_loop().run_in_executor(None, post, port)


async def _in_older_pool(port: int) -> None:
    await asyncio.wrap_future(OLDER.submit(post, port))


async def _in_thread(port: int) -> None:
    thread = threading.Thread(target=post, args=(port,))
    thread.start()
    await asyncio.to_thread(thread.join)


async def _caught(port: int) -> None:
    try:
        post(port)
    except BaseException:  # a library may catch everything
        return


async def _in_process(port: int) -> None:
    process = multiprocessing.get_context("spawn").Process(target=post, args=(port,))
    process.start()
    await asyncio.to_thread(process.join)


async def _in_pool_of_processes(port: int) -> None:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(post, port)


async def _in_command(port: int) -> None:
    await asyncio.to_thread(subprocess.run, ["true", str(port)], check=True)


async def _by_name(_port: int) -> None:
    socket.gethostbyname("secret.example.com")


async def _raw_thread(port: int) -> None:
    """Start a thread past `threading`, as a library in C does."""
    done: list[BaseException | None] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
            done.append(None)
        except BaseException as error:
            done.append(error)

    _thread.start_new_thread(run, (lambda: post(port),))
    _thread.start_new_thread(run, (lambda: socket.getaddrinfo("secret.example.com", 443),))
    until = time.monotonic() + 5
    while len(done) < 2 and time.monotonic() < until:
        await asyncio.sleep(0.01)


WAYS = {
    "executor": _in_default_executor,
    "pool": _in_older_pool,
    "thread": _in_thread,
    "caught": _caught,
    "process": _in_process,
    "processes": _in_pool_of_processes,
    "command": _in_command,
    "name": _by_name,
}


@app.job(name="leak", outside=True)
async def leak(*, way: str, port: int) -> None:
    await {**WAYS, "raw": _raw_thread}[way](port)


@app.job(name="charge", outside=True)
async def charge(*, first: int, then: int) -> None:
    """Ask a simulator, and then another port whose number begins with the same digits."""
    for port in (first, then):
        await asyncio.to_thread(post, port)
