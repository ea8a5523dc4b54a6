"""What a detector says on a machine that lacks a package, in a process of its own."""

import os
import subprocess
import sys

CODE = """
import sys
for module in {modules!r}:
    sys.modules[module] = None  # as Python has it for a module that cannot be imported
from lmaudit.detectors import parse_detector
from lmaudit.errors import DetectorError
try:
    print(parse_detector({line!r}).judge(["hello"]))
except DetectorError as error:
    print(error)
"""


def told_without(line, modules, **environment):
    code = CODE.format(line=line, modules=modules)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.removesuffix("\n")
