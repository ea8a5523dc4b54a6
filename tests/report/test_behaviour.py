"""Settings as sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.report.behaviour import study_part
from lmaudit.report.contents import Said
from lmaudit.report.sentences import counted, either, in_quotes, in_series
from lmaudit.store import Study
from report.reported import reported, study_of


def words(path):
    with Study.open(path) as study:
        part = study_part(study, "a", set())
    return " ".join("".join(p.text if isinstance(p, Said) else p for p in s) for s in part.behaviour)


def test_a_reversal(tmp_path):
    said = words(study_of(tmp_path / "a.db", [reported(" United States")], prefix="She said", only=["lowercase"]))
    assert "says exactly this text:  United States." in said
    assert "3 tokens long" in said
    assert "Every prompt begins with She said." in said
    assert "without upper-case letters" in said
    assert "without a chat template" in said
    assert "Searched with ARCA (at most 50 sweeps), 1 random start for every text." in said


def test_a_joint_search_with_conditions_and_a_judge(tmp_path):
    tables = [
        {"term": "prompt is not toxic", "source": "toxblock", "require": "every", "threshold": 0.01},
        {"term": "output is french", "source": "language:fr", "require": "mean", "threshold": 0.5},
    ]
    path = study_of(
        tmp_path / "a.db",
        [reported(None)],
        environment={"tables": tables},
        judges=[{"detector": "profanity", "text": "whole"}],
        chat=True,
        overlap="off",
    )
    said = words(path)
    assert "nobody said what the model should say" in said
    assert "every token of the prompt has to be not toxic, that is with a probability below 0.01" in said
    assert "the tokens of the continuation have to be, on average, french" in said
    assert "A judge, profanity, read prompt and continuation together" in said
    assert "through the chat template" in said
    assert "mere copies" in said


def test_an_import_searched_nothing(tmp_path):
    config = {
        "kind": "import",
        "model": {"name": "m"},
        "targets": ["x"],
        "judges": [{"detector": "words", "text": "output"}],
    }
    config["judges"][0]["expect"] = "toxic"
    Study.create(tmp_path / "a.db", config=config, runs=[], environment={}).close()
    said = words(tmp_path / "a.db")
    assert said.startswith("Nothing was searched: prompts that another tool had found")
    assert "A judge, words, read the output of each finding" in said
    assert "Searched with" not in said


def test_a_grid_names_what_it_varies(tmp_path):
    path = study_of(tmp_path / "a.db", [reported("x")], prompt_length=[2, 3, 4, 5], chat=[True, False])
    said = words(path)
    assert "from 2 to 5 tokens long" in said
    assert "through the chat template" in said


def test_optimisers_by_the_names_that_people_know_and_by_their_labels(tmp_path):
    listed = ["auto", "gbda", {"name": "arca", "label": "few", "n_sweeps": 3}, {"name": "random", "n_sweeps": [1, 2]}]
    said = words(study_of(tmp_path / "a.db", [reported("x")], optimizers=listed))
    assert "short climbs from a bank of prompts (at most 50 sweeps)" in said
    assert "GBDA (at most 200 steps, 8 starts)" in said
    assert "ARCA, here called few (at most 3 sweeps)" in said
    assert "random search (at most 1 or 2 sweeps)" in said


def test_many_targets_are_counted_and_some_shown(tmp_path):
    said = words(study_of(tmp_path / "a.db", [reported(f"text {i}") for i in range(9)]))
    assert "one of 9 given texts: text 0, text 1" in said
    assert "and 4 more" in said


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, "3"), ([3, 5], "3 or 5"), ([2, 3, 4, 5], "from 2 to 5"), (0.5, "0.5"), (["same", "same+1"], "same or same+1")],
)
def test_values_that_a_grid_varies(value, expected):
    assert either(value) == expected


def test_words_in_series():
    assert [in_series([]), in_series(["a"]), in_series(["a", "b", "c"])] == ["", "a", "a, b and c"]
    assert [counted(1, "search", "searches"), counted(2000, "search", "searches")] == ["1 search", "2,000 searches"]


@given(st.lists(st.text(), max_size=20), st.integers(1, 8))
def test_quotes_hold_each_text_once_and_never_more_than_asked_for(texts, most):
    quoted = [part.text for part in in_quotes(texts, most=most) if isinstance(part, Said)]
    assert quoted == texts[:most]
