"""What lmaudit warns of is one line on standard error."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from lmaudit.cli.main import _own_warnings_as_notices
from lmaudit.remote import ServiceWarning
from remote.loopback import Answer, Loopback


def test_a_service_that_is_given_up_is_one_line(tmp_path):
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(6)))
    places = {"LMAUDIT_CACHE": str(tmp_path / "cache"), "LMAUDIT_DATA": str(tmp_path / "data")}
    with Loopback(lambda *_: Answer(500)) as server:
        detector = f"perspective?rate=none&tries=1&give_up_after=2&concurrency=1&base_url={server.url}"
        ran = subprocess.run(
            [sys.executable, "-m", "lmaudit", "benchmark", "-d", detector, "-b", str(texts), "--resamples", "0"],
            env={**os.environ, **places, "PERSPECTIVE_API_KEY": "s3cret-key-0123456789"},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    (told,) = [line for line in ran.stderr.splitlines() if "not asked" in line]
    assert told.startswith("notice: perspective: 2 requests in a row failed (HTTP 500)")
    assert "Warning" not in ran.stderr


def test_warnings_of_others_stay_as_they_are_and_so_does_python(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(DeprecationWarning, match="of others") as theirs:  # noqa: PT031 -- what is inside restores
        before = warnings.showwarning
        with _own_warnings_as_notices():
            warnings.simplefilter("always")
            warnings.warn("of\x1b[31m ours", ServiceWarning, stacklevel=1)
            warnings.warn("of others", DeprecationWarning, stacklevel=1)
        assert warnings.showwarning is before
    ours = capsys.readouterr().err
    assert len(theirs) == 1
    assert ours.startswith("notice: of")
    assert "\x1b" not in ours
    assert ours.count("\n") == 1
