from sources.conftest import api  # noqa: F401  the same server answers
