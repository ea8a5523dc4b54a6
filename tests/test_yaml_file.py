import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.errors import InputError
from lmaudit.yaml_file import read_yaml, write_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LOOKALIKES = st.sampled_from(
    [
        *("1e-3", "yes", "no", "on", "true", "null", "~", "", "12", "010", "1:30", "1_0", "0x1F", ".inf", "2022-10-01"),
        *("-", "a: b", "# x", "=", "<<", " a ", "'", '"', "*a", "&b", "!c", "%d", "- e", "same-1"),
        *("\0", "\x85", "\u2028", "\n", "\ufeff", "\x1b[31m"),
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False), TEXTS, LOOKALIKES
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=10
)


@given(st.dictionaries(TEXTS | LOOKALIKES, VALUES, max_size=4))
def test_what_is_written_is_read_again(value):
    assert read_yaml(write_yaml(value), "f")[0] == value


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *[
            (word, word)
            for word in ("yes", "no", "on", "off", "y", "2022-10-01", "1:30", "1_0", "0x1F", ".", "tomorrow")
        ],
        *[(word, float(word)) for word in ("1e-3", "1E3", ".5", "5.", "-0.25", "+1.5e+3")],
        *[(".inf", float("inf")), ("-.INF", float("-inf")), ("010", 10), ("-7", -7), ("+7", 7)],
        *[("true", True), ("False", False), ("~", None), ("", None), ("null", None), ("'null'", "null")],
    ],
)
def test_values_are_those_of_yaml_1_2(written, read):
    value = read_yaml(f"a: {written}", "f")[0]["a"]
    assert (value, type(value)) == (read, type(read))


def test_the_same_value_twice_is_written_without_an_alias():
    value = [1, 2]
    assert read_yaml(write_yaml({"a": value, "b": value}), "f")[0] == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f, line 1: expected settings"),
        ("# nothing\n", "got nothing"),
        ("- a\n- b\n", "got a list"),
        ("text\n", "got 'text'"),
        ("a: 1\n\tb: 2\n", "f, line 2: this is not YAML"),
        ("a: 1\na: 2\n", "f, line 2: a is given twice"),
        ("a: {b: 1,\n  b: 2}\n", "f, line 2: b is given twice"),
        ("a: &x [1]\nb: *x\n", "f, line 2: aliases"),
        ("a: 1\n---\nb: 2\n", "f, line 2: this is not YAML"),
        ("a: 1\n[b, c]: 3\n", "f, line 2: expected a name as key"),
        ("a: !!python/object:os.system x\n", "f, line 1: tags"),
        ("a: !!set {x}\n", "f, line 1: tags"),
        ("a: !!binary aGk=\n", "tags"),
        ("a: !!int x\n", "f, line 1: x cannot be read"),
        ("a: !!bool ''\n", "cannot be read"),
        ("a: 1\nb: x\0y\n", "f, line 2: this is not YAML"),
        ("a: [1\nb: 2\n", "this is not YAML"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: " + "{b: " * 5000 + "}" * 5000, "nested too deeply"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("a: " + "x" * 2_000_001, "at most 2000000"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_its_place(text, says):
    with pytest.raises(InputError) as error:
        read_yaml(text, "f")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


def test_aliases_that_stand_for_gigabytes_cost_nothing():
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    with pytest.raises(InputError, match="line 2: aliases"):
        read_yaml(bomb, "f")


def test_lines_are_those_of_the_deepest_part_that_the_file_has():
    _, lines = read_yaml("a: 1\nb:\n  - c: 2\n    d: 3\n  - e\n", "f")
    assert [lines.of(place) for place in ((), ("a",), ("b", 0, "d"), ("b", 0, "kind", "d"), ("b", 1, "x"), ("z",))] == [
        "line 1",
        "line 1",
        "line 4",
        "line 4",
        "line 5",
        "line 1",
    ]
