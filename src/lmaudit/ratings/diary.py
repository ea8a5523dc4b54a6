"""What raters did, as rows in a file of ratings. Called by the book, inside its transactions."""

from __future__ import annotations

import sqlite3

from lmaudit.migrations import utc_now
from lmaudit.ratings.event import Event
from lmaudit.ratings.terms import Rater

MOST_EVENTS_PER_PLACE = 100
"""On average over a rater's places: more is no rating, and the disk is not theirs to fill."""


def insert_event(connection: sqlite3.Connection, rater: Rater, event: Event) -> str:
    """Keep one event; returns why it was refused, '': it is kept, now or since it first came."""
    if event.place >= rater.n_places:
        return "there is no such place"
    row = (event.place, event.kind.value, event.value, event.comment, event.took_ms)
    known = connection.execute(
        "SELECT place, kind, value, comment, took_ms FROM events WHERE rater = ? AND event_id = ?",
        (rater.number, event.id),
    ).fetchone()
    if known is not None:
        return "" if known == row else "the id was used for something else"
    counted = "SELECT count(*) FROM events WHERE rater = ?"
    if connection.execute(counted, (rater.number,)).fetchone()[0] >= MOST_EVENTS_PER_PLACE * rater.n_places:
        return "too many changes"
    connection.execute(
        "INSERT INTO events (rater, place, kind, value, comment, took_ms, event_id, at) VALUES (?,?,?,?,?,?,?,?)",
        (rater.number, *row, event.id, utc_now()),
    )
    return ""
