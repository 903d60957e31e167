"""The graph of a project as a picture: on the terminal, as SVG, as Mermaid. Knows neither Spark nor logs."""

from tidemill.graphs.picture import MARKS, Box, Picture, Shape, branched, mermaid, tree
from tidemill.graphs.svg import svg

__all__ = ["MARKS", "Box", "Picture", "Shape", "branched", "mermaid", "svg", "tree"]
