"""Files of HarmBench as prompts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exported import held, saying
from lmaudit.errors import InputError
from lmaudit.exports import export, write
from lmaudit.imports import read_prompts


def file(folder, value, name="cases.json"):
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_test_cases_are_prompts_without_a_target(tmp_path):
    read = read_prompts(file(tmp_path, {"b1": ["a", "b", "a"], "b2": ["a"]}))
    assert [(p.behavior, p.text, p.target) for p in read.prompts] == [
        ("b1", "a", None),
        ("b1", "b", None),
        ("b2", "a", None),
    ]
    assert not read.aims
    assert read.sources["test_cases"]["name"] == "cases.json"


def test_what_was_generated_is_the_target_unless_targets_are_given(tmp_path):
    cases = file(tmp_path, {"b": [{"test_case": "a", "generation": "x", "label": 1}]})
    assert [p.target for p in read_prompts(cases).prompts] == ["x"]
    targets = file(tmp_path, {"b": "Sure", "more": "y"}, "targets.json")
    read = read_prompts(cases, targets=targets)
    assert [p.target for p in read.prompts] == ["Sure"]
    assert read.aims


def test_behaviours_are_told_apart_by_category(tmp_path):
    table = tmp_path / "b.csv"
    table.write_text("BehaviorID,Behavior,SemanticCategory,Tags\nb,'=say it,harmless,\n", encoding="utf-8")
    (prompt,) = read_prompts(file(tmp_path, {"b": ["a"]}), behaviors=table).prompts
    assert prompt.about == {"text": "=say it", "SemanticCategory": "harmless"}


def test_spaces_around_a_category_do_not_make_two_of_one(tmp_path):
    table = tmp_path / "b.csv"
    table.write_text("BehaviorID,Behavior,SemanticCategory\nb , say it ,harm \nc,x,harm\n", encoding="utf-8")
    read = read_prompts(file(tmp_path, {"b": ["a"], "c": ["a"]}), behaviors=table)
    assert {p.about["SemanticCategory"] for p in read.prompts} == {"harm"}
    assert read.prompts[0].about["text"] == " say it "


def test_what_stands_twice_is_told_instead_of_lost(tmp_path):
    cases, table = tmp_path / "c.json", tmp_path / "b.csv"
    cases.write_text('{"b": ["one"], "b": ["two"]}', encoding="utf-8")
    with pytest.raises(InputError, match="'b' stands twice"):
        read_prompts(cases)
    table.write_text("BehaviorID,Behavior\nb,this\nb,that\n", encoding="utf-8")
    with pytest.raises(InputError, match="b stands there twice"):
        read_prompts(file(tmp_path, {"b": ["a"]}), behaviors=table)
    table.write_text("BehaviorID,Behavior\nb,this\n", encoding="utf-8")
    with pytest.raises(InputError, match="none of the behaviours"):
        read_prompts(file(tmp_path, {"other": ["a"]}), behaviors=table)


def test_entries_that_are_no_prompt_are_named_and_the_others_stay(tmp_path):
    read = read_prompts(file(tmp_path, {"b": ["a", ["i.png", "x"], "", "\ud800", 3], "c": "text"}))
    assert [p.text for p in read.prompts] == ["a"]
    assert [problem.partition(":")[0] for problem in read.problems] == [
        "b, entry 2",
        "b, entry 3",
        "b, entry 4",
        "b, entry 5",
        "c",
    ]
    assert "pictures" in read.problems[0]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "expected test cases as one JSON object, got list"),
        ({}, "holds no prompt"),
        ({"b": [""]}, "the prompt is empty"),
        ({"b": ["a", {"test_case": "c", "generation": "x"}]}, "split the file"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, value, told):
    with pytest.raises(InputError, match=told):
        read_prompts(file(tmp_path, value))


def test_other_trouble_is_told_in_one_line(tmp_path):
    broken = tmp_path / "x.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is not JSON"):
        read_prompts(broken)
    with pytest.raises(InputError, match="check the path"):
        read_prompts(tmp_path / "none.json")
    with pytest.raises(InputError, match="a target of b, got none"):
        read_prompts(file(tmp_path, {"b": ["a"]}), targets=file(tmp_path, {"c": "x"}, "targets.json"))


whole = st.text(min_size=1).filter(str.strip)  # what can be a prompt


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=5))
def test_what_is_exported_comes_back(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("h")
    material = held(*(saying(prompt, "o", target) for prompt, target in said))
    cases, completions, behaviors, targets = write(export(material, "harmbench"), folder / "t.json", "harmbench")
    read = read_prompts(cases, behaviors=behaviors, targets=targets)
    assert {(p.text, p.target) for p in read.prompts} == set(said)
    assert all(p.about["text"].startswith("Make the model say exactly") for p in read.prompts)
    assert {p.target for p in read_prompts(completions).prompts} == {"o"}
