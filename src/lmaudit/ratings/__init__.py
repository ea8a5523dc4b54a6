"""Human scores: texts are written, rated blindly by several people, and turned into scores with their uncertainty.

Read `collected` (what ratings are), then `scores` and `agreement` (what becomes of them, pure functions), then `book`
(the file that keeps them) and `page` (where people give them).
"""
