from sources.conftest import postgres  # noqa: F401  the same server
