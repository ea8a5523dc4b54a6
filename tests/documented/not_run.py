"""Documented commands that are only parsed, or run with one option more, each with the reason."""

ONLY_PARSED = {
    "--benchmark sass": "its texts are published without a licence, so no stand-in is kept: they come from its authors",
    "http://127.0.0.1:8000": "asks a server that the reader runs; tests/transfers/test_served.py asks a real one",
    "--page": "serves a page until Ctrl-C; tests/ratings/test_writing_server.py opens it",
}
"""By a part of the line."""

ADDED = {"rate": ("--no-serve",)}
"""``rate`` serves a page until Ctrl-C; with its own ``--no-serve`` it does all but that."""

MAY_FAIL = {
    "benchmark": "--require",
    "compare": "",
    "run": "--",
    "reverse": "--",
    "elicit": "--",
    "show": "--require",
    "card": "",
}
"""Commands that may end with exit code 1, a check that was not met: with this option, or always."""

ONLY_PARSED_PAGES = {"results.md": "what these commands printed on the embedded model, after hours"}
