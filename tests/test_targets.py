import importlib.util
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.errors import FetchError, InputError, ModelError
from lmaudit.model.load import load_vocabulary, make_spec
from lmaudit.targets import CommentColumns, choose, comment_files, load_targets, toxic_comments
from lmaudit.targets.choosing import NOT_TEXT, OTHER_LENGTH, REPEATED, SEVERAL_LINES
from lmaudit.testing.tiny import save_tiny_model, tiny_tokenizer
from lmaudit.vocabulary import Vocabulary
from paths import DATA

PAPERS_SPELLINGS = {
    " Ben Luján": " Ben Ray Luján",
    " Catherine Cortez-Masto": " Catherine Cortez Masto",
    " Dick Blumenthal": " Richard Blumenthal",
    " Robert Menendez": " Bob Menendez",
    " Shelley Capito": " Shelley Moore Capito",
}
"""How the paper's released list writes five of the names."""


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(tiny_tokenizer("bytes"), 200)


def comments(folder, name="train.csv", rows=(("a cat", "0.9"),), header="text,toxicity"):
    path = folder / name
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return path


# ── lists ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_a_hundred_different_senators_each_the_next_words_of_a_text():
    senators = load_targets("senators")
    assert len(senators) == len(set(senators)) == 100
    assert all(name.startswith(" ") and name[1:] == name.strip() and name.count(" ") >= 2 for name in senators)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the paper's list in ../shared/data")
def test_the_senators_are_those_of_the_paper():
    lines = (DATA / "arca" / "senators.txt").read_text(encoding="utf-8").splitlines()
    assert {PAPERS_SPELLINGS.get(line, line) for line in lines} == set(load_targets("senators"))


def test_a_file_is_kept_verbatim_but_for_its_line_ends(tmp_path):
    path = tmp_path / "own"
    path.write_bytes("\ufeff the cat\r\n\n  two  \n".encode())
    assert load_targets(path) == (" the cat", "  two  ")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no target"),
        (b" a\n  \n", "line 2 .* only spaces"),
        (b"a\rb\n", "line 1 .* carriage returns"),
        (b"\xff\xfea", "not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_a_target_is_told(tmp_path, content, told):
    path = tmp_path / "own.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        load_targets(path)


def test_a_name_that_is_no_list_is_told_with_those_there_are():
    with pytest.raises(InputError, match=r"no list of targets 'bishops': expected senators, or a file"):
        load_targets("bishops")
    with pytest.raises(InputError, match=r"cannot read bishops\.txt"):
        load_targets("bishops.txt")


# ── choosing ──────────────────────────────────────────────────────────────────────────────────────────────


def test_targets_have_exactly_the_tokens_that_were_asked_for(vocabulary):
    texts = (" the", " the cat", " the cat cat", " the", " pig" * 40)
    chosen = choose(texts, vocabulary, lengths={1, 2})
    assert chosen.targets == (" the", " the cat")
    assert (chosen.n_read, chosen.left_out) == (5, {OTHER_LENGTH: 2, REPEATED: 1})


def test_case_is_lowered_before_anything_is_counted(vocabulary):
    chosen = choose((" Ed", " ed", " Cat"), vocabulary, lengths={1}, lowercase=True)
    assert (chosen.targets, chosen.left_out) == ((" ed", " cat"), {REPEATED: 1})


def test_what_cannot_stand_in_a_list_is_left_out():
    chosen = choose((" a\nb", " \ud800", " fine"))
    assert (chosen.targets, chosen.left_out) == ((" fine",), {SEVERAL_LINES: 1, NOT_TEXT: 1})


def test_reading_stops_at_the_limit():
    def endless():
        n = 0
        while True:
            yield f" word {n // 2}"
            n += 1

    chosen = choose(endless(), limit=2)
    assert (chosen.targets, chosen.n_read) == ((" word 0", " word 1"), 3)


def test_a_text_that_the_tokenizer_cannot_write_is_left_out(vocabulary):
    assert choose((" cat \U0001f9ff",), vocabulary, lengths={1, 2, 3, 4, 5, 6, 7}).targets == ()


def test_lengths_are_those_of_some_tokenizer():
    with pytest.raises(InputError, match="vocabulary"):
        choose((" a",), lengths={1})


@given(st.lists(st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=122), min_size=1, max_size=12)))
def test_chosen_targets_come_from_the_texts_in_order_and_every_text_is_accounted_for(texts):
    vocabulary = Vocabulary(tiny_tokenizer("bytes"), 200)
    chosen = choose(texts, vocabulary, lengths={2, 3})
    assert chosen.n_read == len(texts) == len(chosen.targets) + sum(chosen.left_out.values())
    assert list(chosen.targets) == [t for t in dict.fromkeys(texts) if t in chosen.targets]
    assert all(len(vocabulary.encode(target)) in (2, 3) for target in chosen.targets)
    assert chosen.targets == choose(chosen.targets, vocabulary, lengths={2, 3}).targets


# ── CivilComments ─────────────────────────────────────────────────────────────────────────────────────────


def test_comments_that_half_of_the_annotators_found_toxic_are_taken(tmp_path):
    rows = [("a cat", "0.5"), (" the pig ", "1"), ("a man", "0.499"), ("", "1.0"), ("no score", ""), ("what", "maybe")]
    assert list(toxic_comments([comments(tmp_path, rows=rows)])) == [" a cat", " the pig"]
    assert list(toxic_comments([comments(tmp_path, rows=rows)], min_toxicity=0.6)) == [" the pig"]


def test_kaggles_columns_are_known_and_others_can_be_named(tmp_path):
    kaggle = comments(tmp_path, rows=[("0.7", "a cat")], header="target,comment_text")
    assert list(toxic_comments([kaggle])) == [" a cat"]
    own = comments(tmp_path, rows=[("0.7", "a cat")], header="score,comment")
    assert list(toxic_comments([own], columns=CommentColumns("comment", "score"))) == [" a cat"]
    with pytest.raises(InputError, match=r"expected a column 'text' or 'comment_text', found score, comment.*--text-c"):
        list(toxic_comments([own]))


def test_json_lines_are_read(tmp_path):
    path = tmp_path / "train.jsonl"
    records = [{"text": "line one\nline two", "toxicity": 0.8}, {"text": None, "toxicity": 1}, {"toxicity": 1}]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert list(toxic_comments([path])) == [" line one\nline two"]


def test_a_scale_other_than_shares_is_told_with_its_line(tmp_path):
    path = comments(tmp_path, rows=[("a cat", "0.9"), ("a man", "63")])
    with pytest.raises(InputError, match=r"line 3: expected a toxicity from 0 to 1, got 63"):
        list(toxic_comments([path]))
    with pytest.raises(InputError, match="min_toxicity"):
        list(toxic_comments([path], min_toxicity=1.5))


def test_a_folder_gives_all_its_tables_in_the_order_of_their_names(tmp_path):
    inner = tmp_path / "data"
    inner.mkdir()
    second, first = comments(inner, "train-2.csv"), comments(inner, "train-1.csv")
    (inner / "README.md").write_text("about")
    assert comment_files(str(tmp_path)) == [first, second]
    assert comment_files(str(second)) == [second]


def test_where_to_get_a_copy_is_told(tmp_path):
    with pytest.raises(InputError, match="hf download --repo-type dataset google/civil_comments"):
        comment_files(str(tmp_path / "absent.csv"))
    with pytest.raises(InputError, match="found none in"):
        comment_files(str(tmp_path))


def test_a_hub_that_cannot_be_reached_is_one_line():
    with pytest.raises(FetchError, match=r"cannot fetch google/civil_comments: .* give a local folder"):
        comment_files("google/civil_comments")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow, which lmaudit does not ask for")
def test_parquet_is_read_with_pyarrow(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"id": [1, 2, 3], "text": ["a cat", "a man", None], "toxicity": [0.75, 0.25, 0.9]})
    pyarrow.parquet.write_table(table, tmp_path / "train.parquet")
    assert list(toxic_comments(comment_files(str(tmp_path)))) == [" a cat"]
    (tmp_path / "train.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match="as parquet"):
        list(toxic_comments(comment_files(str(tmp_path))))


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is here")
def test_parquet_without_pyarrow_says_what_to_install(tmp_path):
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="install pyarrow, or convert"):
        list(toxic_comments(comment_files(str(tmp_path))))


# ── tokens of a model ─────────────────────────────────────────────────────────────────────────────────────


def test_the_tokens_of_a_model_need_none_of_its_weights(tmp_path, vocabulary):
    folder = save_tiny_model(tmp_path / "tiny", "gpt2")
    (folder / "model.safetensors").unlink()
    loaded = load_vocabulary(make_spec(name=str(folder)))
    assert loaded.encode(" the cat") == vocabulary.encode(" the cat")


def test_a_model_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ModelError, match="no model"):
        load_vocabulary(make_spec(name=str(tmp_path / "absent")))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot load the tokenizer"):
        load_vocabulary(make_spec(name=str(tmp_path)))
