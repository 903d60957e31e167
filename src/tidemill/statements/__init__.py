"""The statements that a run sends, as texts that can be read without running anything. Knows no Spark."""

from tidemill.statements.runs import RunStatements, statements_of, view_statements

__all__ = ["RunStatements", "statements_of", "view_statements"]
