"""A session of a Spark Connect server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidemill.declare.secrets import Masking
from tidemill.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.declare.spark import SparkSettings

PORT = 15002
PATIENCE = 10.0  # seconds; PySpark itself would try for ten minutes


def connect(settings: SparkSettings, remote: str) -> SparkSession:
    """The session; a server that does not answer, or a package that is missing, is an error at once."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  slow to import
    from pyspark.sql import SparkSession  # noqa: PLC0415

    _knock(settings, remote)
    builder = SparkSession.builder.remote(remote)
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as failure:
        raise EngineError(
            "engine.connect_packages",
            f"Spark Connect needs a package that is not installed: {_first_line(failure)}",
            'Install what it needs into this Python: pip install "pyspark[connect]".',
            origin=settings.origin,
        ) from failure
    except PySparkException as failure:
        raise _unreachable(settings, _first_line(failure)) from failure


def _knock(settings: SparkSettings, remote: str) -> None:
    """Whether anything listens there."""
    try:
        address = urlsplit(remote)
        socket.create_connection((address.hostname or "", address.port or PORT), PATIENCE).close()
    except (OSError, ValueError) as failure:
        raise _unreachable(settings, str(failure)) from failure


def _unreachable(settings: SparkSettings, reason: str) -> EngineError:
    return EngineError(
        "engine.unreachable",
        f"{settings} cannot be reached: {Masking(settings.secrets).mask(reason)}",
        "Start the server, correct the address, or leave out remote: then Tidemill runs its own Spark.",
        origin=settings.origin,
    )


def _first_line(failure: Exception) -> str:
    return str(failure).splitlines()[0] if str(failure) else type(failure).__name__
