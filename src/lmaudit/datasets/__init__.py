"""Benchmarks: what detectors are measured on. Read `dataset`, then `table`; one file a set."""
