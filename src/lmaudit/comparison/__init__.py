"""Two studies side by side: two models, or one before and after a fix.

`searches` pairs them, `paired` compares rates, `holding` says what became of findings, `detectors` compares benchmark
runs; `comparing` puts it together, `checks` fails builds, `sheets` lays it out. `verification` regenerates A's findings
on B's model before.
"""

from lmaudit.comparison.comparing import Comparison, compare

__all__ = ["Comparison", "compare"]
