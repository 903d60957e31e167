"""What the results of public calls consist of, for annotations in your own code.

The results themselves are exported by `tidemill`: `RunResult`, `Verified`, `TableChecks` and the others.

    from tidemill.results import Checked, Verdict

    def broken(checks: tuple[Checked, ...]) -> list[Checked]:
        return [each for each in checks if each.verdict is not Verdict.PASSED]
"""

from tidemill.api.results import RunWindow
from tidemill.ledger.past import PastStep
from tidemill.model.check import Checked, Expected, Place, Verdict
from tidemill.model.cursor import CursorKind
from tidemill.model.record import InputRecord
from tidemill.verify.result import Found, Kind, Sample, VerifyOutcome

__all__ = [
    "Checked",
    "CursorKind",
    "Expected",
    "Found",
    "InputRecord",
    "Kind",
    "PastStep",
    "Place",
    "RunWindow",
    "Sample",
    "Verdict",
    "VerifyOutcome",
]
