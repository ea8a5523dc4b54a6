"""The parts of `search_quality.py`, the yardstick of searches: read targets, variants, searches, records, summary."""
