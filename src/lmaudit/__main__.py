"""``python -m lmaudit`` is the ``lmaudit`` command."""

from lmaudit.cli.main import main

main()
