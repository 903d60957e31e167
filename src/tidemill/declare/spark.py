"""Which Spark does the work: the embedded one, a cluster, or a Spark Connect server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidemill.declare.secrets import secrets_in
from tidemill.declare.zones import SESSION_ZONE, zone_named

if TYPE_CHECKING:
    from datetime import tzinfo

    from tidemill.errors import Origin

LOCAL = "local[*]"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`remote` is the address of a Spark Connect server, `master` that of a cluster; never both.

    `conf` wins over Tidemill's own settings.
    """

    master: str = LOCAL
    remote: str | None = None
    conf: dict[str, str] = field(default_factory=dict, repr=False)  # it may hold passwords
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """The Spark, as a user should see it: an address may hold a token behind its host."""
        if self.remote is not None:
            return f"Spark Connect at sc://{urlsplit(self.remote).netloc.partition(';')[0]}"
        return "embedded Spark" if is_local(self.at) else f"Spark at {self.at}"

    @property
    def secrets(self) -> frozenset[str]:
        """What no text may show: the address's token, and passwords and keys by the names of their settings."""
        return secrets_in({"remote": self.remote, **self.conf})

    @property
    def zone(self) -> tzinfo:
        """Where its days begin, as far as that is declared."""
        return zone_named(self.conf.get(SESSION_ZONE, "UTC"))

    @property
    def at(self) -> str:
        """The master, wherever it was given."""
        return self.conf.get("spark.master", self.master)


def is_local(master: str) -> bool:
    """Whether a master is this very process, and no cluster."""
    return master == "local" or master.startswith("local[")
