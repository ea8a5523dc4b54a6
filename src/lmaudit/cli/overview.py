"""What ``lmaudit --help`` and the pages of docs/commands say of the whole: tasks, exit codes, environment, files."""

from __future__ import annotations

ABOUT = "Audit language models by search, and the detectors that judge them by graded human judgement."

TASKS = {
    "Audit a model": {
        "reverse": "find prompts that make a model say exactly this",
        "elicit": "find prompts of one kind that get output of another",
        "run": "run the audits that a YAML file describes",
        "targets": "lists of what a model should say, for reverse",
        "tables": "how likely each token is toxic, French, …",
    },
    "Look at results": {
        "show": "findings, rates and benchmarks of a study",
        "report": "one page for readers who never saw lmaudit",
        "compare": "two studies: what still holds, what is gone",
        "verify": "regenerate every finding from its text alone",
        "transfer": "ask another model the prompts that were found",
        "naturalness": "how natural a second model finds the prompts",
        "figures": "success by prompt length, as pictures and CSV",
        "export": "a study's findings or settings, for other tools",
        "import": "read what other tools found",
    },
    "Judge a detector": {
        "benchmark": "measure detectors against human judgement",
        "detectors": "which detectors there are, and what each needs",
        "card": "how far a detector can be trusted, as measured",
    },
    "Make a benchmark": {
        "write": "write texts that fool a detector",
        "rate": "serve a page on which people rate texts",
        "scores": "from ratings to scores, and how raters agree",
        "publish": "a benchmark with licence, hash and datasheet",
    },
    "Set up": {
        "models": "models with a short name; fetch one ahead",
        "doctor": "is this model fit for an audit?",
    },
}
"""The commands by what a person wants to do, each with a few words. A command that is not here comes last."""

EXAMPLES = (
    'lmaudit reverse " United States" --study names.db',
    "lmaudit show names.db",
    "lmaudit benchmark --detector profanity",
    "lmaudit elicit --prompt-is 'not toxic' --output-is toxic --judge profanity",
)

EXIT_CODES = {
    0: "done",
    1: "a check was not met",
    2: "usage or input: one line on standard error says what to change",
    3: "ended incomplete: the same command, or the one that is named, goes on",
}

ENVIRONMENT = {
    "LMAUDIT_CACHE": "folder of models, tables, banks of prompts and answers of services",
    "LMAUDIT_DATA": "folder of validation cards",
    "LMAUDIT_API_KEY": "key of a server that is no known service",
    "OPENAI_API_KEY": "key of OpenAI",
    "PERSPECTIVE_API_KEY": "key of Perspective",
    "HF_TOKEN, HF_HOME": "token and cache of the Hugging Face Hub",
    "NO_COLOR": "no colours, when set to anything",
    "FORCE_COLOR": "colours in a pipe, too",
    "COLUMNS": "width of tables",
}

FILES = {
    "lmaudit-studies/": "studies without --study go here, one SQLite file each",
    "*.yaml": "audits, for lmaudit run; export --config writes one",
}

_OF_SEARCHES = {1: "--require or --fail-on is not met", 3: "searches are left: a budget, or Ctrl-C"}
MORE_EXITS: dict[str, dict[int, str]] = {
    "verify": {1: "a finding of the study's own model is no longer regenerated", 3: "Ctrl-C; what came is kept"},
    "compare": {1: "what --fail-on names came about", 3: "what is not finished could still make it so, or Ctrl-C"},
    "show": {1: _OF_SEARCHES[1], 3: "with a gate: searches are left, so nothing is met for good"},
    "doctor": {1: "something would spoil an audit"},
    "card": {1: "the detector was not measured yet"},
    "benchmark": {1: "a requirement is not met", 3: "a service left texts without an answer, or Ctrl-C"},
    "transfer": {3: "prompts got no answer, or Ctrl-C"},
    "naturalness": {3: "Ctrl-C; what is measured is kept"},
    "reverse": _OF_SEARCHES,
    "elicit": _OF_SEARCHES,
    "run": _OF_SEARCHES,
    "write": {3: "texts got no answer for now, or Ctrl-C"},
}
"""What 1 and 3 mean for one command, where it ends with them."""


def exit_codes_of(command: str) -> dict[int, str]:
    """What each exit code of a command means, 0 and 2 included."""
    return dict(sorted({0: EXIT_CODES[0], 2: "usage or input", **MORE_EXITS.get(command, {})}.items()))
