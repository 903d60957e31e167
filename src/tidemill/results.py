"""What the results of public calls consist of, for annotations in your own code.

The results themselves are exported by `tidemill`: `RunResult`, `Verified`, `TableChecks` and the others.

    from tidemill.results import Checked, Verdict

    def broken(checks: tuple[Checked, ...]) -> list[Checked]:
        return [each for each in checks if each.verdict is not Verdict.PASSED]
"""

from tidemill.api.results import RunWindow
from tidemill.formats.port import RowsBy
from tidemill.ivm import BlockText
from tidemill.ledger.past import PastStep
from tidemill.model.check import Checked, Expected, Place, Verdict
from tidemill.model.cursor import CursorKind
from tidemill.model.record import InputRecord
from tidemill.planning.explanation import ExplainedInput, ExplainedRule, NextRun, Prevented
from tidemill.verify.result import Found, Kind, Sample, VerifyOutcome

__all__ = [
    "BlockText",
    "Checked",
    "CursorKind",
    "Expected",
    "ExplainedInput",
    "ExplainedRule",
    "Found",
    "InputRecord",
    "Kind",
    "NextRun",
    "PastStep",
    "Place",
    "Prevented",
    "RowsBy",
    "RunWindow",
    "Sample",
    "Verdict",
    "VerifyOutcome",
]
