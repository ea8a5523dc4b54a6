from hypothesis import given
from hypothesis import strategies as st

from lmaudit.suggestions import closest, did_you_mean

NAMES = ("smollm2", "--prompt-length", "identity_hate", "French")


def test_a_misspelt_name_is_told_what_it_is_like():
    assert did_you_mean("smolm2", NAMES) == "; did you mean smollm2?"
    assert did_you_mean("--promt-lenght", NAMES) == "; did you mean --prompt-length?"
    assert did_you_mean("IDENTITY-HATE", NAMES) == "; did you mean identity_hate?"
    assert did_you_mean("frensh", NAMES) == "; did you mean French?"
    assert did_you_mean("quite another thing", NAMES) == ""
    assert did_you_mean("", NAMES) == ""
    assert did_you_mean("--fail-on", ("--label-column", "--help")) == "", "two dashes are nothing that is alike"
    assert closest("anything", ()) is None


@given(st.text(), st.lists(st.text()))
def test_only_what_exists_is_suggested_and_a_name_is_most_like_itself(name, known):
    assert closest(name, known) in (None, *known)
    if name.removeprefix("--").replace("_", "-").removeprefix("--") and name in known:
        near = closest(name, known)
        assert near is not None
        bare = [one.casefold().replace("_", "-").removeprefix("--") for one in (near, name)]
        assert bare[0] == bare[1]
