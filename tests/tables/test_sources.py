"""What single sources do beyond what holds of all."""

from urllib.parse import quote

import pytest

from lmaudit.detectors import Detector, Verdict
from lmaudit.errors import InputError
from lmaudit.tables import TableWarning, load, load_table
from lmaudit.tables.judged import Judged
from lmaudit.testing.tiny import tiny_tokenizer
from lmaudit.vocabulary import Vocabulary
from tiny_language_model import save_tiny_language_model


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(tiny_tokenizer("bytes", size=200), 200)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Length(Detector):
    """Answers by length; for a text of five letters it does not answer, finally or for now."""

    kind = "length"
    final: bool

    @property
    def version(self):
        return "1"

    def _answers(self, texts):
        for i, text in enumerate(texts):
            yield i, Verdict.absent("no", final=self.final) if len(text) == 5 else Verdict(min(1, len(text) / 10))


@pytest.mark.parametrize("final", [True, False])
def test_a_missing_verdict_is_no_number_and_a_passing_failure_is_not_kept(vocabulary, cache, final, recwarn):
    column = load._kept_column(Judged(Length(final=final)), vocabulary, None)
    for i in vocabulary.usable.nonzero()[:, 0].tolist():
        length = len(vocabulary.strings[i].strip())
        if length == 5:
            assert column.probability[i].isnan()
        else:
            assert float(column.probability[i]) == pytest.approx(length / 10)
    assert any(len(text.strip()) == 5 for text in vocabulary.strings)
    assert column.unknown is None
    assert len(list((cache / "tables").glob("*.safetensors"))) == int(final)
    assert [warning.category for warning in recwarn] == [TableWarning] * (not final)


@pytest.mark.parametrize("length", [0, 5, 30, 150, 300])
def test_a_language_model_that_is_cut_short_is_told(vocabulary, tmp_path, length):
    path = save_tiny_language_model(tmp_path / "tiny.bin")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=r"a file that fastText cannot load|it has none"):
        load_table(f"language:fr?model={path}", vocabulary)


def test_a_language_that_a_model_does_not_know_is_told_with_those_it_does(vocabulary, tmp_path):
    path = save_tiny_language_model(tmp_path / "tiny.bin")
    for _ in range(2):  # also where the other languages are kept
        with pytest.raises(InputError, match=r"no label __label__it; it has de, en, fr"):
            load_table(f"language:it?model={path}", vocabulary)
        load_table(f"language:fr?model={path}", vocabulary)


def test_the_name_of_a_language_model_may_hold_anything(vocabulary, tmp_path):
    path = save_tiny_language_model(tmp_path / "a b&c?d=ü%41.bin")
    table = load_table(f"language:fr?model={quote(str(path))}", vocabulary)
    assert load_table(table.source, vocabulary).version == table.version


def test_a_label_of_ones_own_is_only_a_name(vocabulary):
    named, plain = load_table("words", vocabulary, label="rude"), load_table("words", vocabulary)
    assert (named.label, plain.label) == ("rude", "toxic")
    assert named.probability.equal(plain.probability) or named.probability.isnan().any()
