"""A project with all that its files declare: the ground on which every command about tables stands."""

from tidemill.workspace.workspace import Workspace

__all__ = ["Workspace"]
