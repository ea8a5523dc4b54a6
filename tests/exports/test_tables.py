"""JSON Lines, CSV and Parquet give every text back exactly, to the programs that people read them with."""

import csv
import io
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exported import HOSTILE, benchmark_study, held, of, saying, texts
from lmaudit.exports import export, material_of, text_of
from lmaudit.records import safe_cell
from lmaudit.store import Study

FORMULA = ("=", "+", "-", "@", "\t", "\r")
pairs = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4)
quick = settings(max_examples=30, deadline=None)


def material_saying(said):
    return held(*(saying(prompt, output, target, seed=i) for i, (prompt, output, target) in enumerate(said)))


def csv_rows(content):
    """As Python's own reader has them; 50 kB of text as JSON is more than it takes by itself."""
    limit = csv.field_size_limit(10_000_000)
    try:
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    finally:
        csv.field_size_limit(limit)


def said_in(rows):
    return [tuple(text_of(row, name) for name in ("prompt", "output", "target")) for row in rows]


@quick
@given(pairs)
def test_jsonl_gives_every_text_back(said):
    lines = export(material_saying(said), "jsonl")[""].decode("ascii").splitlines()
    assert [(r["prompt"], r["output"], r["target"]) for r in map(json.loads, lines)] == said


@quick
@given(pairs)
def test_csv_gives_every_text_back_and_no_cell_is_a_formula(said):
    content = export(material_saying(said), "csv")[""]
    assert said_in(csv_rows(content)) == said
    assert b"\x00" not in content
    assert "\u202e" not in content.decode()
    for row in csv_rows(content):
        assert all(not row[name].startswith(FORMULA) for name in ("prompt", "output", "target", "completion"))


@quick
@given(pairs)
def test_pandas_reads_the_same_from_csv(said):
    content = export(material_saying(said), "csv")[""]
    frame = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    assert said_in(frame.to_dict("records")) == said


@quick
@given(pairs)
def test_parquet_gives_every_text_back(said):
    content = export(material_saying(said), "parquet")[""]
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    for row, texts_ in zip(rows, said, strict=True):
        for name, text in zip(("prompt", "output", "target"), texts_, strict=True):
            assert (json.loads(row[name]) if name in row["escaped"] else row[name]) == text


def test_parquet_has_types():
    material = material_saying([("a", "b", "c")])
    frame = pd.read_parquet(io.BytesIO(export(material, "parquet")[""]))
    assert {name: str(frame[name].dtype) for name in ("run", "logprob", "solved")} == {
        "run": "int64",
        "logprob": "float64",
        "solved": "bool",
    }
    assert list(frame["prompt_ids"][0]) == [1, 1, 1]
    assert json.loads(frame["settings"][0]) == {}


def test_pandas_reads_jsonl():
    said = [(text, "o", "t") for text in HOSTILE if not any("\ud800" <= c <= "\udfff" for c in text)]
    content = export(material_saying(said), "jsonl")[""]
    frame = pd.read_json(io.BytesIO(content), lines=True, dtype=False)
    assert list(frame["prompt"]) == [prompt for prompt, _, _ in said]


def test_what_was_measured_of_a_finding_goes_with_it(tmp_path):
    def measure(study):
        study.add_verification(1, {"regenerated": False, "model": "m"})
        study.add_measurement(1, "transfer", {"to": "other", "completion": "bad", "same_output": True})
        study.add_measurement(1, "transfer-judgement", {"text": "bad", "judge": "profanity", "toxic": True})
        study.add_measurement(1, "naturalness", {"under": "big", "logprob_per_token": -2.5})

    material = of(tmp_path, saying("a"), saying("b", seed=1), then=measure, model={"name": "m"})
    first, second = map(json.loads, export(material, "jsonl")[""].splitlines())
    assert first["verifications"] == [{"regenerated": False, "model": "m"}]
    assert first["transfer"][0]["judgements"] == [{"judge": "profanity", "toxic": True}]
    assert first["naturalness"] == [{"under": "big", "logprob_per_token": -2.5}]
    assert (first["model"]["name"], first["schema_version"], first["run"]) == ("m", 1, 1)
    assert first["study"]["id"] == material.about.id
    assert second["verifications"] == second["transfer"] == second["naturalness"] == []


@pytest.mark.parametrize(("failures", "n"), [(False, 1), (True, 2)])
def test_failures_are_there_when_asked_for(tmp_path, failures, n):
    material = of(tmp_path, saying("a"), saying("b", solved=False), failures=failures)
    records = [json.loads(line) for line in export(material, "jsonl")[""].splitlines()]
    assert [r["level"] for r in records] == ["regenerated", None][:n]


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet"])
def test_a_benchmark_is_exported_verdict_by_verdict(tmp_path, name):
    with Study.open(benchmark_study(tmp_path / "b.db")) as study:
        content = export(material_of(study), name)[""]
    if name == "jsonl":
        rows = [json.loads(line) for line in content.splitlines()]
    elif name == "csv":
        rows = csv_rows(content)
        assert "prompt" not in rows[0]
        assert [row["text"] for row in rows] == [safe_cell(t) for t in ("damn =1", "nice", "=1+1 shit", "fine")]
    else:
        rows = pq.read_table(io.BytesIO(content)).to_pylist()
    assert [row["record"] for row in rows] == ["verdict"] * 4
    assert [str(row["right"]).lower() for row in rows] == ["false", "true", "true", "true"]
    assert [str(row["toxic"]).lower() for row in rows] == ["false", "false", "true", "false"]
