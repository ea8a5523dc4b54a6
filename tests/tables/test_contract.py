"""What holds of the table of every source."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from lmaudit.packaged import cache_directory
from lmaudit.tables import fingerprint, kept_passes, load_table, parse_source
from lmaudit.testing.tiny import tiny_tokenizer
from lmaudit.vocabulary import Vocabulary
from tiny_classifiers import save_tiny_classifier
from tiny_language_model import save_tiny_language_model

KNOWS_ALL = None


def _words(folder):
    (folder / "my words.txt").write_text("cat\npig  # not the animal\n", encoding="utf-8")
    return f"words?file={folder}/my words.txt", 0.0


def _classifier(folder):
    return f"hf:{save_tiny_classifier(folder / 'classifier', 'bert')}?label=toxic&activation=softmax", KNOWS_ALL


def _language(folder):
    return f"language:fr?model={save_tiny_language_model(folder / 'tiny.bin')}", pytest.approx(0.212, abs=1e-3)


def _array(folder):
    np.save(folder / "mine.npy", np.linspace(0, 1, 210))
    return f"file:{folder}/mine.npy", KNOWS_ALL


def _csv(folder):
    (folder / "mine.csv").write_text("token,probability\n cat,0.25\nthe,1\n", encoding="utf-8")
    return f"file:{folder}/mine.csv", KNOWS_ALL


def _profanity(_):
    pytest.importorskip("profanity_check", reason="pip install 'lmaudit[detectors]'")
    return "profanity", pytest.approx(0.036, abs=0.01)


REAL = [pytest.param(line, id=line, marks=pytest.mark.real) for line in ("toxblock", "french")]
MADE = {
    "words": _words,
    "profanity": _profanity,
    "hf": _classifier,
    "language": _language,
    "npy": _array,
    "csv": _csv,
}


@pytest.fixture(scope="module")
def vocabulary():
    """200 tokens, and 10 rows beyond the tokenizer."""
    return Vocabulary(tiny_tokenizer("bytes", size=200), 210)


@pytest.fixture(params=[*MADE, *REAL])
def source(request, tmp_path):
    """The line of each source, and what it says of unknown tokens."""
    return MADE[request.param](tmp_path)[0] if request.param in MADE else request.param


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, but for the files that real sources were fetched into."""
    mine, real = tmp_path / "cache", cache_directory()
    mine.mkdir()
    for folder in ("files", "detectors"):
        (real / folder).mkdir(parents=True, exist_ok=True)
        (mine / folder).symlink_to(real / folder)
    monkeypatch.setenv("LMAUDIT_CACHE", str(mine))
    return mine


def kept_files(cache):
    return sorted((cache / "tables").glob("*.safetensors"))


def same(one, other):
    return torch.equal(one.probability.nan_to_num(-1), other.probability.nan_to_num(-1)) and (
        (one.source, one.label, one.version, one.unknown) == (other.source, other.label, other.version, other.unknown)
    )


def test_has_a_probability_for_each_usable_token(source, vocabulary):
    table = load_table(source, vocabulary)
    assert table.probability.shape == (210,)
    assert (table.probability.dtype, table.probability.device.type) == (torch.float32, "cpu")
    said = table.probability[table.counts]
    assert len(said)
    assert bool(((said >= 0) & (said <= 1)).all())
    assert not table.counts[~vocabulary.usable].any()
    if not any(part in source for part in ("language", "french", ".csv")):
        assert torch.equal(table.counts, vocabulary.usable)


def test_the_kept_table_is_the_fresh_one(source, vocabulary, cache):
    fresh = load_table(source, vocabulary)
    stamps = [file.stat().st_mtime_ns for file in kept_files(cache)]
    assert same(load_table(source, vocabulary), fresh)
    assert [file.stat().st_mtime_ns for file in kept_files(cache)] == stamps
    assert len(stamps) == int(parse_source(source).kept)
    for file in kept_files(cache):
        file.unlink()
    assert same(load_table(source, vocabulary), fresh)


def test_its_line_makes_it_again(source, vocabulary):
    table = load_table(source, vocabulary)
    assert same(load_table(table.source, vocabulary), table)


@pytest.mark.parametrize("name", [name for name in MADE if name not in ("npy", "csv")])
@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "of another"])
def test_a_damaged_file_is_made_again(name, damage, vocabulary, tmp_path, cache):
    source = MADE[name](tmp_path)[0]
    fresh = load_table(source, vocabulary)
    (file,) = kept_files(cache)
    content = bytearray(file.read_bytes())
    if damage == "cut":
        del content[-100:]
    elif damage == "flipped":
        content[-300] ^= 0x10
    elif damage == "emptied":
        content.clear()
    else:
        content = content.replace(b'\\"unknown\\":', b'\\"unknown\\":1')
    file.write_bytes(content)
    assert same(load_table(source, vocabulary), fresh)
    assert file.read_bytes() != bytes(content)


@pytest.mark.parametrize("name", [name for name in MADE if name not in ("npy", "csv")])
def test_says_what_it_says_of_unknown_tokens(name, vocabulary, tmp_path):
    line, unknown = MADE[name](tmp_path)
    table = load_table(line, vocabulary)
    assert table.unknown == unknown
    if unknown is not None:
        assert 0 < int(table.is_unknown.sum()) < int(table.counts.sum())
    else:
        assert not table.is_unknown.any()


def test_other_vocabularies_share_nothing_and_equal_ones_all(vocabulary, tmp_path, cache):
    line, _ = _words(tmp_path)
    load_table(line, vocabulary)
    load_table(line, Vocabulary(tiny_tokenizer("bytes", size=200), 210))
    assert len(kept_files(cache)) == 1
    for other in (
        Vocabulary(tiny_tokenizer("bytes", size=200), 211),
        Vocabulary(tiny_tokenizer("bytes", size=199), 210),
    ):
        before = len(kept_files(cache))
        assert load_table(line, other).probability.shape == (other.n_rows,)
        assert len(kept_files(cache)) == before + 1
    assert len({kept.vocabulary for kept in kept_passes()}) == 3


def test_another_version_of_a_source_is_another_table(vocabulary, tmp_path):
    line, _ = _words(tmp_path)
    before = load_table(line, vocabulary)
    (tmp_path / "my words.txt").write_text("said\n", encoding="utf-8")
    after = load_table(line, vocabulary)
    assert before.version != after.version
    said = [vocabulary.strings[i] for i in (after.probability == 1).nonzero()[:, 0]]
    assert {text.strip() for text in said} == {"said"}


def test_the_space_before_a_word_changes_nothing(source, vocabulary):
    if "file:" in source:
        pytest.skip("a file says what it says of each token")
    table = load_table(source, vocabulary)
    by_text = {}
    for i in table.counts.nonzero()[:, 0].tolist():
        by_text.setdefault(vocabulary.strings[i].strip(), set()).add(float(table.probability[i]))
    assert any(len(vocabulary.strings[i]) > len(vocabulary.strings[i].strip()) for i in range(200))
    assert all(len(values) == 1 for values in by_text.values())


def test_a_pass_over_the_languages_is_made_once(vocabulary, tmp_path, cache):
    line, _ = _language(tmp_path)
    french = load_table(line, vocabulary)
    stamp = kept_files(cache)[0].stat().st_mtime_ns
    english = load_table(line.replace(":fr", ":english"), vocabulary)
    assert [file.stat().st_mtime_ns for file in kept_files(cache)] == [stamp]
    assert (french.label, english.label) == ("french", "english")
    strings = vocabulary.strings
    assert {strings[i].strip() for i in (english.probability > 0.9).nonzero()[:, 0]} == {"the", "cat", "cats", "is"}
    assert {strings[i].strip() for i in (french.probability > 0.7).nonzero()[:, 0]} == {"She", "on"}
    silent = {i for i in vocabulary.usable.nonzero()[:, 0].tolist() if not any(map(str.isalpha, strings[i]))}
    assert set((~english.counts & vocabulary.usable).nonzero()[:, 0].tolist()) == silent
    assert silent


def test_progress_is_told_to_the_end(vocabulary, tmp_path):
    heard = []
    load_table(_words(tmp_path)[0], vocabulary, on_progress=lambda n_done, n_total: heard.append((n_done, n_total)))
    n_total = heard[-1][1]
    assert heard == [(n, n_total) for n in range(1, n_total + 1)]


def test_an_interrupted_build_keeps_nothing_and_harms_nothing(vocabulary, tmp_path, cache):
    line, _ = _words(tmp_path)

    def interrupt(n_done, _):
        if n_done == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_table(line, vocabulary, on_progress=interrupt)
    assert [file for file in (cache / "tables").iterdir() if file.suffix != ".lock"] == []
    assert load_table(line, vocabulary).counts.any()


@pytest.mark.slow
def test_several_processes_build_one_table(tmp_path, cache):
    line, _ = _words(tmp_path)
    code = (
        "import sys; from lmaudit.tables import load_table; from lmaudit.testing.tiny import tiny_tokenizer\n"
        "from lmaudit.vocabulary import Vocabulary\n"
        "told = []\n"
        "table = load_table(sys.argv[1], Vocabulary(tiny_tokenizer('bytes', size=200), 210),"
        " on_progress=lambda *n: told.append(n))\n"
        "print(bool(told), table.probability.nansum().item())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, line], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    answers = [process.communicate(timeout=120)[0].split() for process in running]
    assert sorted(built for built, _ in answers) == ["False", "False", "True"]
    assert len({total for _, total in answers}) == 1
    assert len(kept_files(cache)) == 1


def test_the_fingerprint_knows_texts_from_their_neighbours():
    class Two:
        def __init__(self, strings, usable):
            self.strings, self.usable = strings, torch.tensor(usable)

    prints = {
        fingerprint(Two(strings, usable))
        for strings in (["a", "bc"], ["ab", "c"], ["a", "bc", ""])
        for usable in ([True, True], [True, False])
    }
    assert len(prints) == 6
