"""A local HTTP server in a thread of its own, for the fake servers beside this file."""

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import web

Server = TypeVar("Server", bound="LocalServer")


class LocalServer:
    """Runs `app()` on a free port of 127.0.0.1; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def app(self) -> web.Application:
        """The routes."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self: Server) -> Server:
        self._thread.start()
        self._wait(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._runner.cleanup())  # at once, with every request in flight
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def num_connections(self) -> int:
        """Count the open connections, after all that were made before this call are accepted."""
        with socket.create_connection(("127.0.0.1", self._port)) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)  # until the server has closed it
        assert self._runner.server is not None
        return len(self._runner.server.connections)

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self._runner = web.AppRunner(
            self.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.01
        )
        await self._runner.setup()
        # A queue for all that connect at once: what it does not hold is tried again a second later.
        place = {"host": "127.0.0.1", "port": 0, "reuse_address": True, "backlog": 1024}
        await web.TCPSite(self._runner, **place).start()
        self._port = self._runner.addresses[0][1]
