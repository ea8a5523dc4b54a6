import json
import signal
import subprocess
import sys
import time

import pytest

from found import PROMPTS, finding_of, found_study
from lmaudit.records import masked, printable
from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from remote.loopback import Answer, Loopback


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "gpt2", seed=2))


@pytest.fixture
def study(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("LMAUDIT_API_KEY", raising=False)
    model = tiny_model("gpt2", seed=2)
    return found_study(tmp_path / "s.db", [finding_of(model, p) for p in PROMPTS], folder)


def said(text):
    return Answer(body={"model": "m-1", "choices": [{"text": text, "finish_reason": "stop"}]})


def test_a_study_transfers_to_its_own_model(run, study, folder):
    code, out, _ = run("transfer", study, "--to", folder)
    assert code == 0
    assert out.count("5/5 = 100%") == 4
    code, out, _ = run("transfer", study, "--to", folder, "--json")
    whole = json.loads(out)
    assert whole["schema_version"] == 1
    assert whole["rates"]["all"]["output"]["rate"] == 1
    assert [answer["prompt"] for answer in whole["answers"]] == list(PROMPTS)
    assert whole["judge"] is None


def test_reverse_then_transfer(run, folder, tmp_path):
    path = tmp_path / "r.db"
    options = ("--model", folder, "--typable", "--seeds", 2, "--sweeps", 4, "--candidates", 12, "--gradients", 6)
    run("reverse", "cat", "the", "--study", path, *options)
    code, out, _ = run("transfer", path, "--to", folder, "--json")
    assert code == 0
    rates = json.loads(out)["rates"]["regenerated"]
    assert rates["output"]["n"] > 0
    assert rates["output"]["rate"] == rates["first_token"]["rate"] == 1


def test_texts_are_masked_until_asked_for_and_the_judge_is_named(run, study, folder):
    code, plain, _ = run("transfer", study, "--to", folder, "--judge", "profanity", width=300)
    assert code == 0
    assert "toxic by the judge" in plain
    assert "unvalidated" in plain
    model = tiny_model("gpt2", seed=2)
    findings = [finding_of(model, p) for p in PROMPTS]
    rude = found_study(study.with_name("rude.db"), findings, folder, offensive=True)
    _, hidden, _ = run("transfer", rude, "--to", folder, "--judge", "profanity", width=300)
    _, shown, _ = run("transfer", rude, "--to", folder, "--judge", "profanity", "--unmask", width=300)
    for finding in findings:
        assert f'"{printable(finding.output)}"' in plain
        assert f'"{printable(finding.output)}"' in shown
        assert f'"{printable(masked(finding.output))}"' in hidden
    assert any(masked(finding.output) != finding.output for finding in findings)
    assert "--unmask" in hidden
    assert "--unmask" not in plain


def test_hostile_completions_are_shown_harmlessly(run, study):
    with Loopback(lambda *_: said("\x1b[2J[red]\n\u202e")) as server:
        arguments = ("transfer", study, "--to", f"{server.url}/v1", "--served-model", "m", "--unmask")
        code, out, _ = run(*arguments, width=60)
    assert code == 0
    assert r"\x1b[2J[red]\n\u202e" in out.replace("\n", "").replace("  ", "")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 60


def test_failed_requests_end_incomplete_and_the_same_command_goes_on(run, study):
    with Loopback(lambda *_: Answer(status=500, body={})) as server:
        arguments = ("transfer", study, "--to", f"{server.url}/v1", "--served-model", "m", "--tries", 1)
        code, out, err = run(*arguments)
        assert code == 3
        assert "missing: HTTP 500" in out
        assert "5 prompts got no answer for now" in err
        server.behaviour = lambda *_: said("x")
        assert run(*arguments)[0] == 0
        n = len(server.asked)
        assert run(*arguments)[0] == 0
        assert len(server.asked) == n


def test_a_refused_key_is_one_line_without_it(run, study, monkeypatch):
    monkeypatch.setenv("LMAUDIT_API_KEY", "s3cret-key-0123456789")
    with Loopback(lambda *_: Answer(status=401, body={"error": {"message": "bad s3cret-key-0123456789"}})) as server:
        code, out, err = run("transfer", study, "--to", f"{server.url}/v1", "--served-model", "m")
    assert (code, out) == (2, "")
    assert "LMAUDIT_API_KEY" in err
    assert "s3cret" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/nowhere/s.db", "--to", "FOLDER"), "/nowhere/s.db"),
        (("STUDY", "--to", "/nowhere"), "no model"),
        (("STUDY", "--to", "http://127.0.0.1:1/v1"), "--served-model"),
        (("STUDY", "--to", "http://u:p4ss@host/v1", "--served-model", "m"), "without user"),
        (("STUDY", "--to", "FOLDER", "--served-model", "m"), "--served-model is about a server"),
        (("STUDY", "--to", "FOLDER", "--tries", "2"), "--tries"),
        (("STUDY", "--to", "http://127.0.0.1:1/v1", "--served-model", "m", "--tries", "0"), "tries"),
        (("STUDY", "--to", "http://127.0.0.1:1/v1", "--served-model", "m", "--dtype", "float32"), "--dtype"),
        (("STUDY", "--to", "FOLDER", "--api", "chat"), "no chat template"),
        (("STUDY", "--to", "FOLDER", "--judge", "nobody"), "no detector"),
        (("STUDY", "--to", "FOLDER", "--tokens", "0"), "--tokens"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, study, folder, arguments, says):
    values = {"STUDY": study, "FOLDER": folder}
    code, out, err = run("transfer", *[values.get(a, a) for a in arguments])
    assert (code, out) == (2, "")
    assert says in err
    assert "p4ss" not in err
    assert "Traceback" not in err


def test_a_study_of_a_benchmark_has_no_prompts(run, tmp_path, folder):
    Study.create(tmp_path / "b.db", config={"kind": "benchmark"}, runs=[], environment={}).close()
    code, _, err = run("transfer", tmp_path / "b.db", "--to", folder)
    assert code == 2
    assert "prompts that were found" in err


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_transfer_goes_on_where_it_was(run, study, how):
    with Loopback(lambda number, _: Answer(**vars(said("x")) | {"delay_s": 0.0 if number < 2 else 60.0})) as server:
        arguments = ["transfer", str(study), "--to", f"{server.url}/v1", "--served-model", "m", "--tries", "1"]
        process = subprocess.Popen([sys.executable, "-m", "lmaudit", *arguments], stderr=subprocess.PIPE, text=True)
        deadline_s = time.monotonic() + 60
        while n_kept(study) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
        assert process.returncode == (3 if how == signal.SIGINT else -signal.SIGKILL)
        assert ("the same command goes on" in err) == (how == signal.SIGINT)
        assert n_kept(study) == 2
        server.behaviour = lambda *_: said("x")
        n = len(server.asked)
        assert run(*arguments)[0] == 0
        assert len(server.asked) == n + len(PROMPTS) - 2


def n_kept(path):
    with Study.open(path) as study:
        return len(study.measurements("transfer"))


def test_more_tokens_than_the_window_holds_are_an_error(run, study, folder):
    code, _, err = run("transfer", study, "--to", folder, "--tokens", 100_000)
    assert code == 2
    assert "do not fit into the context window; give fewer --tokens" in err.splitlines()[-1]


def test_show_tells_what_other_models_made_of_the_prompts(run, study, folder):
    code, before, _ = run("show", study)
    assert code == 0
    assert "Transfer" not in before
    run("transfer", study, "--to", folder)
    run("naturalness", study, "--under", folder)
    code, out, _ = run("show", study)
    assert code == 0
    assert "Transfer" in out
    assert out.partition("Transfer")[2].count("5/5 = 100% [57%, 100%]") == 2
    assert "Naturalness" in out
    found = json.loads(run("show", study, "--json")[1])["measurements"]
    assert found["transfer"] == [{"to": folder, "n": 5, "n_missing": 0, "first_token": 5, "output": 5}]
    (natural,) = found["naturalness"]
    assert (natural["n"], natural["n_missing"]) == (5, 0)
    assert natural["log_perplexity"] > 0
