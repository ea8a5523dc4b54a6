"""A real browser and a real server for the tests of the rating page."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs a chromium: apt-get install chromium")
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
LAUNCH = {"executable_path": CHROMIUM, "args": ["--no-sandbox"] if AS_ROOT else []}


def write_table(path: Path, n: int = 60) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "category", "tag"])
        for number in range(n):
            text = f"Comment {number}: the bus was late again, and nobody said a word about it."
            rows.writerow([f"SECRET-ID-{number}", text, f"SECRET-CATEGORY-{number % 3}", "SECRET-TAG"])
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Server:
    """``lmaudit rate`` in a process of its own, on one port and one file, started and killed as often as wanted."""

    def __init__(self, folder: Path, raters: str, table: Path | None = None, port: int | None = None) -> None:
        self.db, self.port = folder / "ratings.db", port or free_port()
        self._log = folder / f"server-{self.port}.log"
        self.links: dict[str, str] = {}
        self.start(*([] if table is None else [str(table)]), "--raters", raters)

    def start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "lmaudit", "rate", "--db", str(self.db), "--port", str(self.port), "--json"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        lines = ""
        while not lines.endswith("}\n") or lines.count("{") != lines.count("}"):
            line = self.process.stdout.readline()
            assert line, self.log()
            lines += line
        self.links |= json.loads(lines)["links"]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
                return
            time.sleep(0.05)
        raise AssertionError(self.log())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()
