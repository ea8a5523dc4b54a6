"""Command lines that cannot be read: one line each, which says what was perhaps meant."""

import pytest


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("revers cat", "error: no command 'revers' of lmaudit; did you mean reverse?"),
        ("tables biuld", "error: no command 'biuld' of lmaudit tables; did you mean build?"),
        ("zzz", "error: no command 'zzz' of lmaudit; lmaudit --help lists commands"),
        ("reverse cat --promt-lenght 3", "error: No such option: --promt-lenght; did you mean --prompt-length?"),
        ("reverse cat --qiet", "error: No such option: --qiet; did you mean --quiet?"),
        ("show x.db --zzz", "error: No such option: --zzz; see lmaudit show --help"),
        ("show", "error: Missing argument 'STUDY'; see lmaudit show --help"),
        ("figures x.db --out y --format sgv", "did you mean svg?"),
        ("reverse cat --live 0", "error: Invalid value for '--live': expected greater than or equal to 1"),
        ("reverse cat --model smolm2", "did you mean smollm2?"),
        ("reverse cat --optimizer arka", "did you mean arca?"),
        ("reverse cat --only lowercas", "did you mean lowercase?"),
        ("reverse cat --dtype flaot32", "did you mean float32?"),
        ("elicit --output-is toxik", "did you mean toxic?"),
        ("elicit --judge profanitty", "did you mean profanity?"),
        ("benchmark -d profanitty", "did you mean profanity?"),
        ("benchmark -d profanity?treshold=1", "did you mean threshold?"),
        ("benchmark -d words -b hatechek", "did you mean hatecheck?"),
        ("benchmark -d words --require recal>=0.5", "did you mean recall?"),
        ("reverse cat --require regenrated<=0.5", "did you mean regenerated?"),
        ("tables show fench", "did you mean french?"),
        ("targets senatros", "did you mean senators?"),
        ("models fetch smolm", "did you mean smollm2?"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_was_meant(run, line, told, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    *before, last = err.splitlines()
    assert last.startswith("error: ")
    assert told in last
    assert all(one.startswith("Loading ") for one in before)
    assert not list(tmp_path.iterdir())


def test_hostile_words_are_shown_harmless(run):
    for line in (["\x1b[31mred"], ["show", "--\x1b[31mred"], ["figures", "x", "--out", "y", "--format", "\x1b[31m"]):
        code, _, err = run(*line)
        assert code == 2
        assert "\x1b" not in err


def test_options_of_the_whole_work_anywhere_and_are_no_values(run):
    assert run("--quiet", "models")[1] == run("models", "--quiet")[1]
    code, _, err = run("show", "nowhere.db", "--debug")
    assert code == 2
    assert "Traceback" in err
    code, _, err = run("show", "--", "--quiet")
    assert code == 2
    assert "--quiet" in err
    code, _, err = run("targets", "senators", "--out", "--debug", "--limit", "0")
    assert "--limit" in err, "--debug is the value of --out"
