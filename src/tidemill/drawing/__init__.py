"""The graph of a project as a picture: on the terminal, as SVG, as Mermaid. Knows neither Spark nor logs."""

from tidemill.drawing.boxes import Box, Picture, Shape
from tidemill.drawing.mermaid import mermaid
from tidemill.drawing.svg import svg
from tidemill.drawing.tree import MARKS, tree

__all__ = ["MARKS", "Box", "Picture", "Shape", "mermaid", "svg", "tree"]
