"""Where real files for development lie, when they do: beside the repository, never in it."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the real benchmark files in ../shared/data")
