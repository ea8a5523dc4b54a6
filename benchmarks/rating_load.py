"""Fifty raters at once on one rating page: none of their ratings may be lost, and how long one takes.

    python benchmarks/rating_load.py
    python benchmarks/rating_load.py --raters 50 --ratings 200 --per-second 2

A real server (``lmaudit rate`` in a process of its own) is asked over real HTTP on this machine. Each rater keeps one
connection and sends so many ratings a second (at most; fewer where the server is slower), each followed by an *empty*
request (the page's icon: 204, no token, no database), so that both are measured under the same load. What was answered
as stored is then compared, one by one, with what the file holds. Prints one JSON object; exits with 1 when a rating is
missing, doubled or wrong.

The client shares the machine with the server, and with whatever else runs: the ratios, and what the server used of a
processor, say more than the times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lmaudit.ratings.book import RatingBook

N_TEXTS = 200


@dataclass
class Timed:
    """Milliseconds of each request of one run, and how many were told to come back later."""

    rating_ms: list[float] = field(default_factory=list)
    empty_ms: list[float] = field(default_factory=list)
    n_again: int = 0


class Connection:
    """One kept-alive connection of HTTP/1.1, with as little of a client as will do: the machine is the server's."""

    def __init__(self, link: str) -> None:
        self._where, self._token = urlsplit(link), urlsplit(link).fragment

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(self._where.hostname, self._where.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._where.netloc}", f"Authorization: Bearer {self._token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        self._writer.write("\r\n".join(lines).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        content = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, content


async def rate(link: str, number: int, options: argparse.Namespace, timed: Timed) -> dict[int, int]:
    """One rater's session; what was answered as stored: value by place."""
    draw, stored = random.Random(number), {}  # noqa: S311 - inputs, no secrets
    await asyncio.sleep(draw.random() / options.per_second)  # people do not press in step
    async with Connection(link) as connection:
        due_s = time.perf_counter()
        for place in range(options.ratings):
            value = draw.randint(0, 10)
            event = {"id": f"{number:016x}{place:016x}", "place": place, "kind": "rating", "value": value}
            await post(connection, json.dumps({"events": [event]}).encode(), timed)
            stored[place] = value
            begun_s = time.perf_counter()
            status, _, _ = await connection.ask("GET", "/favicon.ico")
            timed.empty_ms.append(1000 * (time.perf_counter() - begun_s))
            assert status == 204, status
            due_s += 1 / options.per_second
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
    return stored


async def post(connection: Connection, body: bytes, timed: Timed) -> None:
    """Send one rating until it is stored, as the page does."""
    while True:
        begun_s = time.perf_counter()
        status, headers, content = await connection.ask("POST", "/api/events", body)
        if status == 200:
            timed.rating_ms.append(1000 * (time.perf_counter() - begun_s))
            assert content == b'{"refused":[""]}', content
            return
        assert status in (429, 503), content
        timed.n_again += 1
        await asyncio.sleep(float(headers["retry-after"]))


def serve(folder: Path, n_raters: int) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A server of its own process, and its links."""
    table = folder / "texts.csv"
    table.write_text("text\n" + "".join(f"Comment number {n} on the weather.\n" for n in range(N_TEXTS)), "utf-8")
    names = ",".join(f"rater{n}" for n in range(n_raters))
    command = [sys.executable, "-m", "lmaudit", "rate", str(table), "--raters", names, "--port", "0", "--json"]
    process = subprocess.Popen(
        [*command, "--db", str(folder / "ratings.db")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    lines = ""
    while lines.count("{") != lines.count("}") or not lines:
        line = process.stdout.readline()
        assert line, "the server ended"
        lines += line
    links: dict[str, str] = json.loads(lines)["links"]
    wait_for(next(iter(links.values())))
    return process, links


def wait_for(link: str) -> None:
    """Return when the server answers."""
    where = urlsplit(link)
    for _ in range(200):
        try:
            socket.create_connection((where.hostname or "", where.port or 0)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


def differences(db: Path, stored: dict[str, dict[int, int]]) -> int:
    """How many ratings are missing, doubled or other than what was sent, by rater's name and place."""
    wrong = 0
    with RatingBook.open(db) as book:
        for rater in book.raters():
            sent, history = stored[rater.name], [event for _, event in book.history(rater)]
            kept = {event.place: event.value for event in history}
            wrong += abs(len(history) - len(sent)) + sum(kept.get(place) != value for place, value in sent.items())
    return wrong


def percentiles(values_ms: Sequence[float]) -> dict[str, float]:
    """Of milliseconds."""
    cuts = statistics.quantiles(values_ms, n=100, method="inclusive")
    return {"p50_ms": round(cuts[49], 2), "p95_ms": round(cuts[94], 2), "p99_ms": round(cuts[98], 2)}


async def all_at_once(links: dict[str, str], options: argparse.Namespace, timed: Timed) -> dict[str, dict[int, int]]:
    """All raters' sessions together."""
    sessions = [rate(link, number, options, timed) for number, link in enumerate(links.values())]
    return dict(zip(links, await asyncio.gather(*sessions), strict=True))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--ratings", type=int, default=200, help=f"of each rater, at most {N_TEXTS}")
    parser.add_argument("--per-second", type=float, default=2.0, help="ratings a second of each rater, at most")
    options = parser.parse_args()
    timed = Timed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process, links = serve(folder, options.raters)
        begun_s = time.perf_counter()
        try:
            stored = asyncio.run(all_at_once(links, options, timed))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        seconds = time.perf_counter() - begun_s
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # the start of the server included
        cpu_s = used.ru_utime + used.ru_stime
        wrong = differences(folder / "ratings.db", stored)
    rating, empty = percentiles(timed.rating_ms), percentiles(timed.empty_ms)
    report = {
        "raters": options.raters,
        "ratings": len(timed.rating_ms),
        "missing_doubled_or_wrong": wrong,
        "told_to_come_back": timed.n_again,
        "ratings_per_s": round(len(timed.rating_ms) / seconds, 1),
        "rating": rating,
        "empty_request": empty,
        "ratio": {key.removesuffix("_ms"): round(rating[key] / empty[key], 2) for key in rating},
        "server_cpu_ms_per_request": round(1000 * cpu_s / (len(timed.rating_ms) + len(timed.empty_ms)), 2),
        "load_average": os.getloadavg()[0],
        "cpus": os.cpu_count(),
    }
    print(json.dumps(report, indent=2))
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
