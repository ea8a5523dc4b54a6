import io

import numpy as np
import pytest
import torch

from lmaudit.errors import InputError
from lmaudit.tables import load_table
from lmaudit.testing.tiny import tiny_tokenizer
from lmaudit.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(tiny_tokenizer("bytes", size=200), 210)


def written(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return f"file:{path}"


def test_an_array_says_what_it_holds_of_usable_tokens(tmp_path, vocabulary):
    values = np.linspace(0, 1, 210)
    values[5] = np.nan
    np.save(tmp_path / "mine.npy", values)
    table = load_table(f"file:{tmp_path}/mine.npy", vocabulary, label="birds")
    expected = vocabulary.usable.clone()
    expected[5] = False
    assert torch.equal(table.counts, expected)
    assert table.probability[expected].tolist() == pytest.approx(values[expected.numpy()].tolist(), abs=1e-6)
    assert (table.label, table.unknown) == ("birds", None)


@pytest.mark.parametrize(
    "content",
    [
        "token,probability\n cat,0.25\ncat,1\n",
        "\ufefftoken,probability\r\n cat,2.5e-1\r\ncat,1.0\r\n",
        'note,probability,token\nx,0.25," cat"\ny,1,"cat"\n',
    ],
)
def test_a_csv_says_what_it_holds_and_nothing_else(tmp_path, vocabulary, content):
    table = load_table(written(tmp_path / "mine.csv", content), vocabulary)
    said = {vocabulary.strings[i]: float(table.probability[i]) for i in table.counts.nonzero()[:, 0].tolist()}
    assert said == {" cat": 0.25, "cat": 1.0}


def test_a_csv_may_give_ids(tmp_path, vocabulary):
    table = load_table(written(tmp_path / "mine.csv", "id,probability\n7,0.5\n9,0\n"), vocabulary)
    assert table.counts.nonzero()[:, 0].tolist() == [7, 9]
    assert table.probability[[7, 9]].tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("token,probability\n cat,0.5\nzebra,0.5\n", "line 3: no token of this vocabulary is 'zebra'"),
        ("token,probability\n said,0.5\nsaid,0.5\n", "line 3: no token of this vocabulary is 'said'; ' said' is one"),
        ("token,probability\n cat,1.5\n", "line 2: expected a probability from 0 to 1, got '1.5'"),
        ("token,probability\n cat,-0.1\n", "line 2: expected a probability"),
        ("token,probability\n cat,nan\n", "line 2: expected a probability"),
        ("token,probability\n cat,\n", "line 2: expected a probability"),
        ("token,probability\n cat,0\x1b[2J\n", r"got '0\\x1b"),
        ("token,probability\n cat,0.5\n cat,0.5\n", "line 3: this token stands in the table twice"),
        ("token,probability\n cat,0.5,7\n", "line 2: expected 2 cells, got 3"),
        ('token,probability\n" cat,0.5\n', "quotation mark opens in line 2"),
        ("token,p\n cat,0.5\n", "expected a column 'probability', found token, p"),
        ("word,probability\n cat,0.5\n", "expected a column 'token' or 'id' (one of them), found none"),
        ("id,token,probability\n3, cat,0.5\n", "expected a column 'token' or 'id' (one of them), found both"),
        ("id,probability\n210,0.5\n", "line 2: expected an id from 0 to 209, got '210'"),
        ("id,probability\n-1,0.5\n", "line 2: expected an id from 0 to 209"),
        ("id,probability\n" + "9" * 6000 + ",0.5\n", "line 2: expected an id from 0 to 209"),
        ("token,probability\n", "no row"),
        ("", "empty file"),
    ],
)
def test_a_wrong_csv_is_told_with_its_line(tmp_path, vocabulary, content, told):
    with pytest.raises(InputError) as caught:
        load_table(written(tmp_path / "mine.csv", content), vocabulary)
    assert told in str(caught.value)
    assert "mine.csv" in str(caught.value)
    assert str(caught.value).isprintable()


def saved(values, **options):
    stream = io.BytesIO()
    np.save(stream, values, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (saved(np.zeros(209)), "for another vocabulary: expected 210 numbers, one a token, got 209"),
        (
            saved(np.zeros((210, 1))),
            "for another vocabulary: expected 210 numbers, one a token, got the shape (210, 1)",
        ),
        (saved(np.full(210, 1.25)), "expected probabilities from 0 to 1, got 1.25 for token 0"),
        (saved(np.full(210, -np.inf)), "expected probabilities from 0 to 1, got -inf for token 0"),
        (saved(np.full(210, "x")), "expected an array of numbers"),
        (saved(np.zeros(210, dtype=complex)), "expected an array of numbers"),
        (saved(np.array([{}] * 210, dtype=object), allow_pickle=True), "expected an array of numbers"),
        (saved(np.zeros(210))[:-7], "expected an array of numbers"),
        (b"", "expected an array of numbers"),
        (b"hello", "expected an array of numbers"),
    ],
)
def test_a_wrong_array_is_told(tmp_path, vocabulary, content, told):
    (tmp_path / "mine.npy").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_table(f"file:{tmp_path}/mine.npy", vocabulary)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_archive_of_arrays_is_no_table(tmp_path, vocabulary):
    np.savez(tmp_path / "mine.npz", a=np.zeros(210))
    (tmp_path / "mine.npz").rename(tmp_path / "mine.npy")
    with pytest.raises(InputError, match="expected an array of numbers"):
        load_table(f"file:{tmp_path}/mine.npy", vocabulary)


@pytest.mark.parametrize("name", ["mine.txt", "mine", "folder.npy", "folder.csv", "no\0name.npy", "~nobody-here/x.npy"])
def test_what_is_no_table_is_told(tmp_path, vocabulary, name):
    for folder in ("folder.npy", "folder.csv"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    place = name if name.startswith("~") else f"{tmp_path}/{name}"
    with pytest.raises(InputError) as caught:
        load_table(f"file:{place}", vocabulary)
    assert str(caught.value).isprintable()
