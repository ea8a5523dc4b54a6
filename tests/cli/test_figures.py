import json
import sys

import pytest

from ended import finding, study_of


@pytest.fixture
def study(tmp_path):
    """Two searches that ended and one that did not."""
    path = tmp_path / "study.db"
    study_of(path, [finding("x"), finding("x", "autoprompt", solved=False)], n_open=1).close()
    return path


@pytest.fixture
def _drawing():
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'lmaudit[figures]'")


@pytest.mark.usefixtures("_drawing")
@pytest.mark.parametrize("form", ["svg", "png"])
def test_figures_and_tables_are_written_and_named(run, study, tmp_path, form):
    out = tmp_path / "figures"
    code, printed, err = run("figures", study, "--out", out, "--format", form)
    assert (code, printed.splitlines()) == (0, [str(out / f"reversal.{form}"), str(out / "reversal.csv")])
    assert all((out / f"reversal.{ending}").stat().st_size for ending in (form, "csv"))
    assert err == "notice: 1 of 3 searches have not ended: rates favour what ends early\n"


@pytest.mark.usefixtures("_drawing")
def test_json_holds_the_tables(run, study, tmp_path):
    code, out, err = run("figures", study, study, "--out", tmp_path / "figures", "--level", "regenerated", "--json")
    came = json.loads(out)
    assert (code, came["n_open"], came["n_repeated"]) == (0, 1, 3)
    assert "3 searches are in several studies and count once" in err
    rows = {(row["optimizer"], row["measure"]): row["rate"] for row in came["tables"]["reversal"]}
    assert rows == {
        ("arca", "average"): 1.0,
        ("arca", "normalised"): 1.0,
        ("autoprompt", "average"): 0.0,
        ("autoprompt", "normalised"): 0.0,
    }


@pytest.mark.usefixtures("_drawing")
def test_a_study_in_which_nothing_has_ended_is_told(run, tmp_path):
    study_of(tmp_path / "new.db", [], n_open=2).close()
    code, out, err = run("figures", tmp_path / "new.db", "--out", tmp_path / "figures")
    assert (code, out) == (2, "")
    assert err == "error: nothing to draw: 2 of 2 searches have not ended; run or resume them first\n"
    assert not (tmp_path / "figures").exists()


@pytest.mark.usefixtures("_drawing")
def test_what_cannot_be_drawn_is_one_line(run, study, tmp_path):
    assert "expected a study file" in run("figures", tmp_path / "absent.db", "--out", tmp_path)[2]
    code, _, err = run("figures", study, "--out", study)
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot write figures to" in err
    assert run("figures", study)[0] == 2  # a folder is asked for


def test_without_matplotlib_one_line_says_what_to_install(run, study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as Python has it for a module that cannot be imported
    code, out, err = run("figures", study, "--out", tmp_path / "figures")
    assert (code, out) == (2, "")
    assert err == "error: figures need matplotlib: pip install matplotlib\n"
