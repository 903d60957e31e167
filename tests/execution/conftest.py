from pipelines.conftest import shop  # noqa: F401
from sources.conftest import postgres  # noqa: F401  the same server
