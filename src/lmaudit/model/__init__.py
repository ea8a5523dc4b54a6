"""What can be audited. `load` finds and loads it, `catalog` knows names, `huggingface` runs it, `prefix` saves work."""
