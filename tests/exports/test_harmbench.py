"""Files of HarmBench: each behaviour with its prompts, and what the model said to them."""

import csv
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ended import finding
from exported import held, saying, texts
from lmaudit.exports import export


def files(*found):
    contents = export(held(*found), "harmbench")
    return {name: content.decode() for name, content in contents.items()}


def test_prompts_for_one_target_are_test_cases_of_one_behaviour():
    found = files(saying("a", target="x"), saying("b", target="x", seed=1), saying("c", target="y"))
    cases = json.loads(found[""])
    assert list(cases.values()) == [["a", "b"], ["c"]]
    completions = json.loads(found[".completions.json"])
    assert completions.keys() == cases.keys()
    assert list(completions.values())[1] == [{"test_case": "c", "generation": "o"}]
    assert list(json.loads(found[".targets.json"]).values()) == ["x", "y"]
    rows = list(csv.DictReader(io.StringIO(found[".behaviors.csv"])))
    assert [row["BehaviorID"] for row in rows] == list(cases)
    assert rows[0]["Behavior"] == 'Make the model say exactly "x"'
    assert rows[0]["FunctionalCategory"] == "standard"


def test_joint_searches_are_one_behaviour_without_target():
    found = files(finding(None), saying("other", target=None, seed=1))
    assert [len(cases) for cases in json.loads(found[""]).values()] == [2]
    assert json.loads(found[".targets.json"]) == {}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_no_prompt_is_lost(said):
    found = files(*(saying(prompt, "o", target) for prompt, target in said))
    names = {target: name for name, target in json.loads(found[".targets.json"]).items()}
    cases = json.loads(found[""])
    assert {(prompt, names[target]) for prompt, target in said} == {(p, n) for n, ps in cases.items() for p in ps}
    rows = list(csv.DictReader(io.StringIO(found[".behaviors.csv"], newline="")))
    assert {row["BehaviorID"] for row in rows} == set(cases)
