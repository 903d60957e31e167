"""Where a database is: its address without the user and the password, which travel apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

_POSTGRES = ("postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class Address:
    """`jdbc` is what Spark takes. It holds no password for PostgreSQL, however the user has written it."""

    jdbc: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def is_postgres(self) -> bool:
        return self.jdbc.startswith("jdbc:postgresql:")

    @property
    def libpq(self) -> str:
        """The same for PostgreSQL's own library."""
        return self.jdbc.removeprefix("jdbc:")


def read_address(url: str, user: str | None = None, password: str | None = None) -> Address:
    """Reads `postgresql://host:port/db`, the same with `jdbc:` before it, or any other JDBC URL.

    A user and a password given beside the URL win over those in it.
    """
    plain = url.removeprefix("jdbc:")
    if not plain.startswith(tuple(f"{scheme}://" for scheme in _POSTGRES)):
        return Address(url, user, password)
    parts = urlsplit(plain)
    query = dict(parse_qsl(parts.query))
    found_user = query.pop("user", None) or (unquote(parts.username) if parts.username else None)
    found_password = query.pop("password", None) or (unquote(parts.password) if parts.password else None)
    host = parts.netloc.rpartition("@")[2] or "localhost"
    options = f"?{urlencode(query)}" if query else ""
    return Address(
        f"jdbc:postgresql://{host}{parts.path or '/'}{options}", user or found_user, password or found_password
    )
