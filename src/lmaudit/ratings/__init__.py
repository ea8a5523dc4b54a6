"""Human scores: texts are written, rated blindly by several people, and turned into scores with their uncertainty.

Read `written` and `writing` (texts against a detector; `writing_file` keeps them, `writing_desk` and `writing_server`
are their page), `collected` (what ratings are), `mapping`, `scores`, `agreement` and `minority` (what becomes of them,
pure functions), then `book` (the file that keeps ratings), `order`, `desk`, `server` and `guard` (the page where people
give them), and `sources`, `scores_file`, `publish` (from files to a benchmark).
"""
