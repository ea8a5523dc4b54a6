"""Options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelOption = Annotated[
    str,
    typer.Option(
        "--model", help="A short name (see `lmaudit models`), a folder, a .gguf file, or a Hub id.", metavar="MODEL"
    ),
]
RevisionOption = Annotated[str | None, typer.Option(help="Branch, tag or commit on the Hub.")]
DtypeOption = Annotated[
    str, typer.Option(help="auto, float32, bfloat16 or float16. auto is float32 on a CPU.", metavar="DTYPE")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", metavar="DEVICE")]
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model.")]
PickleOption = Annotated[
    bool, typer.Option("--allow-pickle", help="Accept weights that are not safetensors; a pickle can run code.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

# ── of a search ───────────────────────────────────────────────────────────────────────────────────────────

PromptLengthOption = Annotated[
    str, typer.Option(help="Tokens of the prompt that are searched: 3; 1..8 finds the shortest.", metavar="N|N..N")
]
MinimiseOption = Annotated[
    bool, typer.Option("--minimise", help="Leave out of a found prompt what it works without; a range always does.")
]
OptimizerOption = Annotated[
    list[str] | None,
    typer.Option(help="auto (default), arca, autoprompt, beam, gbda, gcg, pez, random; may be given several times."),
]
JointOptimizerOption = Annotated[
    list[str] | None, typer.Option(help="arca (default), autoprompt, random; may be given several times.")
]
SeedOption = Annotated[list[int] | None, typer.Option(help="This seed; may be given several times.", min=0)]
SweepsOption = Annotated[int | None, typer.Option(help="Passes over all positions before giving up [50].", min=1)]
CandidatesOption = Annotated[
    int | None,
    typer.Option(help="Tokens evaluated exactly per update [auto: 24, others: 32]; gcg: prompts [128].", min=1),
]
JointCandidatesOption = Annotated[int | None, typer.Option(help="Tokens evaluated exactly per update [32].", min=1)]
GradientsOption = Annotated[int | None, typer.Option(help="auto, arca: gradients averaged per update [4, 32].", min=1)]
JointGradientsOption = Annotated[int | None, typer.Option(help="arca: gradients averaged per update [32].", min=1)]
AutoregressiveOption = Annotated[
    bool | None, typer.Option(help="arca: add what one pass tells exactly of every token (Eq. 5) [yes].")
]
KeepIncumbentOption = Annotated[
    bool | None,
    typer.Option(help="Keep the token that is there among the candidates [auto: yes] (not in ARCA's paper)."),
]
BankOption = Annotated[
    int | None,
    typer.Option(help="auto: tokens that a bank of prompts may cost, once for a model [25000]; 0: none.", min=0),
]
EveryRowOption = Annotated[
    bool | None,
    typer.Option(help="Stop at any candidate that solves, not only the best [auto: yes] (not in ARCA's paper)."),
]
OnlyOption = Annotated[
    list[str] | None, typer.Option(help="Keep what is searched to lowercase, letters, ascii or words.")
]
OverlapOption = Annotated[
    str, typer.Option(help="Prompts may not repeat the output: words, literal (as in the paper), off.")
]
PrefixOption = Annotated[str, typer.Option(help='Fixed start of every prompt: "She said".')]
SuffixOption = Annotated[str, typer.Option(help="Fixed end of every prompt, in front of the output.")]
LamOption = Annotated[float, typer.Option(help="Weight of log p(output | prompt).")]
LamPerpOption = Annotated[float, typer.Option(help="Weight of the prompt's naturalness.", min=0)]
SecondModelOption = Annotated[
    str | None, typer.Option(help="Report how likely a second model finds the prompts.", metavar="MODEL")
]
SecondWeightOption = Annotated[
    float, typer.Option(help="Also prefer prompts that the second model finds likely: weight per nat.", min=0)
]
ChatOption = Annotated[bool, typer.Option("--chat", help="Send prompts through the chat template.")]
TypableOption = Annotated[bool, typer.Option("--typable", help="Only prompts whose text is tokenised to the same ids.")]
PromptIsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A class that the prompt has to be of: 'not toxic', french, 'toxic?threshold=0.4&weight=3&source=…'; "
        "may be given several times. `lmaudit tables` lists classes.",
        metavar="CLASS",
    ),
]
JudgeOption = Annotated[
    list[str] | None,
    typer.Option(help="A detector that confirms findings: it reads the output of each.", metavar="DETECTOR"),
]
BudgetSecondsOption = Annotated[float | None, typer.Option(help="Stop after so many seconds of search.", min=0)]
BudgetTokensOption = Annotated[int | None, typer.Option(help="Stop after so many tokens of search.", min=1)]
LiveOption = Annotated[int, typer.Option(help="Searches that advance together; changes speed only.", min=1)]
StudyOption = Annotated[
    Path | None, typer.Option(help="File that keeps everything [lmaudit-studies/<command>-<time>.db].")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the searches and what they would cost; search nothing.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the study of --study.")]
UnmaskOption = Annotated[bool, typer.Option("--unmask", help="Show offensive texts as they are.")]
