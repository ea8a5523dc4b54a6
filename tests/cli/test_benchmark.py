"""``lmaudit benchmark``, ``detectors`` and ``card`` as a person meets them."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lmaudit.store import Study
from working import spent_s


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))


@pytest.fixture
def table(tmp_path):
    """Forty texts that a made-up detector judges: 16 of 20 toxic ones found, 2 false alarms, one answer missing."""
    rows = []
    for i in range(40):
        toxic, score = i % 2 == 0, 0.9 if (i % 2 == 0) == (i >= 8 or i % 2 == 1) else 0.1
        score = 0.8 if i in (1, 3) else score if toxic else 0.2
        rows.append({"text": f"text {i}", "label": int(toxic), "category": "AB"[i % 4 // 2], "score": score})
    rows[39]["score"] = ""
    path = tmp_path / "mine.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def on(table, *more):
    return ("benchmark", "-d", f"recorded:{table}#score", "-b", table, "--resamples", 100, *more)


def test_builtin_needs_no_network_and_no_file(run):
    code, out, err = run("benchmark", "--detector", "words", width=160)
    assert (code, err) == (0, "")
    assert "builtin: 250 texts, 200 toxic (80.0%) by the author's intention" in out
    for said in ("(always)", "Mean score by category", "False Positive", "Blind spots", "Swear words"):
        assert said in out


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_line_fits_the_terminal(run, table, width):
    _, out, _ = run(*on(table), width=width)
    assert max(len(line) for line in out.splitlines()) <= width


def test_json_is_one_object_with_unrounded_numbers(run, table):
    code, out, _ = run(*on(table, "--json", "--require", "recall>=0.5"))
    shown = json.loads(out)
    assert code == 0
    assert shown["schema_version"] == 1
    (record,) = shown["detectors"]
    assert record["metrics"]["recall"]["value"] == pytest.approx(16 / 20)
    assert record["coverage"]["value"] == pytest.approx(39 / 40)
    assert record["missing"] == {"empty cell": 1}
    assert shown["requirements"][0]["met"] is True
    assert {b["name"] for b in shown["baselines"]} == {"always", "never", "coin"}


def test_csv_and_markdown(run, table):
    _, out, _ = run(*on(table, "--format", "csv"))
    rows = list(csv.DictReader(io.StringIO(out)))
    recall = next(r for r in rows if (r["part"], r["metric"]) == ("all", "recall"))
    assert float(recall["value"]) == pytest.approx(0.8)
    _, out, _ = run(*on(table, "--format", "markdown"))
    assert out.startswith("### mine.csv: 40 texts")
    assert "| --- |" in out


def test_no_cell_of_the_csv_is_a_formula(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label,category\na,1,=1+1\nb,0,@x\n")
    _, out, _ = run("benchmark", "-d", "words", "-b", path, "--format", "csv", "--resamples", 0)
    groups = {row["group"] for row in csv.DictReader(io.StringIO(out))}
    assert {"'=1+1", "'@x"} <= groups


@pytest.mark.parametrize(
    ("line", "code"),
    [("recall>=0.7", 0), ("recall>=0.9", 1), ("recall[A]>=0.5", 0), ("coverage>=0.99", 1), ("called[B]<=0.2", 1)],
)
def test_the_gate(run, table, line, code):
    got, _, err = run(*on(table, "--require", line))
    assert got == code
    assert ("NOT met" in err) == (code == 1)
    assert line in err.replace(" ", "")


def test_strict_judges_the_interval(run, table):
    assert run(*on(table, "--require", "recall>=0.75"))[0] == 0
    assert run(*on(table, "--require", "recall>=0.75", "--strict"))[0] == 1


def test_runs_are_kept_in_a_study(run, table, tmp_path):
    study = tmp_path / "s.db"
    run(*on(table, "--study", study))
    run(*on(table, "--study", study))
    with Study.open(study) as opened:
        first, second = opened.benchmarks()
    assert first["benchmark"]["texts"][0] == "text 0"
    assert first["detectors"][0]["verdicts"][39] == {"score": None, "missing": "empty cell"}
    assert {**first, "created": 0} == {**second, "created": 0}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_a_reader_who_leaves_changes_no_gate(tmp_path, form):
    environment = {**os.environ, "LMAUDIT_DATA": str(tmp_path)}
    line = f"{sys.executable} -m lmaudit benchmark -d words --format {form} --resamples 50"
    for gate, code in (("--require 'f1>=0.9'", 1), ("", 0)):
        piped = f"{line} {gate} | true; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["/bin/bash", "-c", piped], capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == code, done.stderr
        assert ("NOT met" in done.stderr) == (code == 1)
    closed = subprocess.run(
        ["/bin/bash", "-c", f"{line} >&-"], capture_output=True, text=True, check=False, env=environment
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_what_cannot_be_kept_is_told_before_judging(run, table, monkeypatch):
    code, out, err = run(*on(table, "--study", table / "x.db"))
    assert (code, out) == (2, "")
    assert "takes no files" in err
    monkeypatch.setenv("LMAUDIT_DATA", "/proc/x")
    code, out, err = run(*on(table))
    assert (code, out) == (2, "")
    assert "LMAUDIT_DATA" in err
    monkeypatch.setenv("LMAUDIT_DATA", "~nobody-at-all/x")
    code, _, err = run(*on(table))
    assert code == 2
    assert "expected a folder in LMAUDIT_DATA" in err


def test_show_prints_what_a_study_keeps(run, table, tmp_path):
    study = tmp_path / "s.db"
    _, first, _ = run(*on(table, "--study", study), width=160)
    code, out, err = run("show", study, width=160)
    assert (code, err) == (0, "")
    assert out == first
    _, out, _ = run("show", study, "--failures", width=160)
    assert "Judged against the label" in out
    assert "t··· 0" in out
    assert "text 0" not in out
    _, out, _ = run("show", study, "--failures", "--unmask", width=160)
    assert "text 0" in out
    _, out, _ = run("show", study, "--json")
    assert len(json.loads(out)["benchmarks"]) == 1
    code, _, err = run("verify", study)
    assert code == 2
    assert "holds no searches" in err


def test_brief_is_the_first_table(run, table):
    _, out, _ = run(*on(table, "--brief"), width=160)
    assert "(always)" in out
    assert "Swear words" not in out


def test_texts_of_one_kind_are_noticed(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,1\nb,1\n")
    assert "all 2 texts are toxic" in run("benchmark", "-d", "words", "-b", path)[2]


def test_all_cards_are_listed(run, table):
    assert run("card")[0] == 1
    run(*on(table))
    run("benchmark", "-d", "words", "-b", table)
    _, out, _ = run("card")
    assert "words on mine.csv" in out
    assert "#score on mine.csv" in out


def test_a_card_is_written_and_printed(run, table):
    code, _, err = run("card", f"recorded:{table}#score")
    assert code == 1
    assert "unvalidated" in err
    run(*on(table))
    code, out, _ = run("card", f"recorded:{table}#score")
    assert code == 0
    assert "sensitivity" in out
    assert "0.800" in out
    _, out, _ = run("card", f"recorded:{table}#score", "--json")
    assert json.loads(out)["cards"][0]["sensitivity"]["value"] == pytest.approx(0.8)


def test_detectors_are_listed_with_what_they_need(run):
    code, out, _ = run("detectors", width=200)
    assert code == 0
    for said in ("recorded:FILE#COLUMN", "hf:MODEL", "PERSPECTIVE_API_KEY", "after 2026"):
        assert said in out
    _, out, _ = run("detectors", "--json")
    listed = {row["detector"].partition(":")[0] for row in json.loads(out)["detectors"]}
    assert listed >= {"profanity", "toxblock", "lm", "words"}


def test_rows_that_cannot_be_used_are_named(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,1\nb,\nc,0\n" + "d\n" * 7)
    code, _, err = run("benchmark", "-d", "words", "-b", path, "--resamples", 0)
    assert code == 0
    assert "line 5: expected 2 cells, got 1" in err
    assert "3 more rows left out" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-d", "nonsense"), "no detector 'nonsense'"),
        (("-d", "words:x"), "expected words"),
        (("-d", "recorded"), "expected recorded:FILE#COLUMN"),
        (("-d", "words?threshold=2"), "less than or equal to 1"),
        (("-d", "words?nonsense=2"), "no setting 'nonsense'; there are threshold, file"),
        (("-d", "words", "--text-column", "comment"), "builtin has its own"),
        (("-d", "recorded:/nowhere.csv#x"), "No such file"),
        (("-d", "words", "-d", "words"), "that differ"),
        (("-d", "words", "-b", "nowhere"), "no benchmark 'nowhere'"),
        (("-d", "words", "-b", "nowhere.csv"), "No such file"),
        (("-d", "words", "--require", "f1=1"), "expected a line like"),
        (("-d", "words", "--strict", "--require", "f1>=0.5", "--resamples", "0"), "--resamples 0 makes none"),
        (("-d", "profanity", "--strict"), "give --require LINE"),
        (("-d", "profanity", "--json", "--format", "csv"), "leave one out"),
        (("-d", "profanity", "--require", "recall[Blakmail]>=0.5"), "did you mean Blackmail?"),
        (("-d", "words", "--cost-miss", "inf"), "expected the cost of a miss"),
        (("-d", "words", "--require", "recall[Nonsense]>=0.5"), "no such category"),
        (("-d", "words", "-b", "sass", "--data", "/nowhere"), "expected norm_human_toxicity_scores.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(run, tmp_path, arguments, says):
    code, out, err = run("benchmark", *arguments, "--study", tmp_path / "s.db")
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s.db").exists()


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path):
    """On a detector that takes long: a file of many texts for the embedded word list, stopped on the way."""
    path = tmp_path / "many.jsonl"
    with path.open("w") as stream:
        for i in range(100_000):
            stream.write(json.dumps({"text": f"word{i} and word{i + 1} go for a walk", "label": i % 2}) + "\n")
    command = [sys.executable, "-m", "lmaudit", "benchmark", "-d", "words", "-b", str(path)]
    environment = {**os.environ, "LMAUDIT_DATA": str(tmp_path)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    while spent_s(process) < 3:  # of its own processor time, however busy the machine
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the same command goes on" in err
    assert "Traceback" not in err
