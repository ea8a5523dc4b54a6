"""What another model does with the prompts that were found on one: the same text, asked once, greedily.

Read `source` (what a study says of the audited model), `respondent` (what is asked and what comes back), `local` and
`served` (who answers), `comparison` (same first token, same output), `judging` (what a detector says of the answers),
`record` (what is kept and summed up), `measuring` (all of it, resumable).

    transfer("study.db", "smollm2", judge="profanity").rates()["output"].rate
"""

from lmaudit.transfers.local import LocalModel
from lmaudit.transfers.measuring import transfer
from lmaudit.transfers.record import Answer, Judge, Transfer
from lmaudit.transfers.served import ServedModel

__all__ = ["Answer", "Judge", "LocalModel", "ServedModel", "Transfer", "transfer"]
