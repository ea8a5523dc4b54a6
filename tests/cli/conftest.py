"""The command line in this process."""

import pytest

from lmaudit.cli.main import main


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs the command line in this process: exit code, standard output, standard error."""

    def call(*arguments, width=120):
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call
