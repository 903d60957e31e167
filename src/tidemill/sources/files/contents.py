"""Files of text as bytes, for what has to be known of them before Spark reads them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyarrow import fs

    from tidemill.sources.files.listing import Listing

KEPT = 20_000  # of what is known of files: a step reads its source several times
_BLOCK = 1 << 20  # bytes
_AT_A_TIME = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Text:
    """A file, which is the same one as long as its size and time are."""

    scheme: str
    path: str
    size: int
    mtime: int
    files: fs.FileSystem = field(compare=False)

    def opened(self) -> pa.NativeFile:
        return self.files.open_input_stream(self.path, compression="detect")

    def blocks(self) -> Iterator[bytes]:
        with self.opened() as stream:
            while block := stream.read(_BLOCK):
                yield block


def looks(listing: Listing, look: Callable[[Text], _T]) -> list[_T]:
    """What is seen in each of the files, in their order."""
    texts = [Text(root.scheme, file.path, file.size, file.mtime_ns, root.files) for root, file in listing.placed]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(look, texts))
