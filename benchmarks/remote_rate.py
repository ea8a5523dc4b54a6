"""How close requests come to the rate that is allowed, and whether they ever exceed it.

    python benchmarks/remote_rate.py

A server on this machine, in a process of its own, answers each request after 300 ms and notes when it came. 100 texts
are judged at 10 requests a second. Printed is one JSON object: the allowed rate, the reached rate (requests between
the first and the last, over the time between them), and the most requests in any window of one second.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any

LATENCY_S = 0.3
N_TEXTS = 100
ANSWER = json.dumps({"attributeScores": {"TOXICITY": {"summaryScore": {"value": 0.25}}}}).encode()


def serve(pipe: Connection) -> None:
    """Send the port; answer until something comes through the pipe; send when each request came."""
    came_s: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            came_s.append(time.monotonic())
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(LATENCY_S)
            self.send_response(200)
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_port)
    server.timeout = 0.05
    while not pipe.poll():
        server.handle_request()
    pipe.send(came_s)


def measure(rate: float, n_texts: int) -> dict[str, Any]:
    """Judge the texts and count."""
    from lmaudit.detectors.perspective import Perspective

    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    detector = Perspective(base_url=f"http://127.0.0.1:{ours.recv()}", rate=rate, concurrency=8)
    verdicts = detector.judge([f"text {i}" for i in range(n_texts)])
    ours.send("stop")
    came_s = sorted(ours.recv())
    server.join()
    assert len(came_s) == n_texts
    assert all(verdict.score == 0.25 for verdict in verdicts)
    reached = (n_texts - 1) / (came_s[-1] - came_s[0])
    return {
        "allowed_per_s": rate,
        "reached_per_s": round(reached, 3),
        "reached_share": round(reached / rate, 4),
        "most_in_any_second": max(sum(start <= t < start + 1 for t in came_s) for start in came_s),
        "smallest_gap_s": round(min(b - a for a, b in pairwise(came_s)), 4),
        "n_requests": n_texts,
        "latency_s": LATENCY_S,
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description="Rate of requests of a remote detector.")
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--texts", type=int, default=N_TEXTS)
    options = parser.parse_args()
    os.environ["PERSPECTIVE_API_KEY"] = "benchmark"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LMAUDIT_CACHE"] = folder  # nothing is answered from an earlier run
        print(json.dumps(measure(options.rate, options.texts), indent=2))


if __name__ == "__main__":
    main()
