import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from lmaudit.detectors import parse_detector
from lmaudit.detectors.text_classifier import encodable
from lmaudit.detectors.toxic_classes import toxic_classes
from lmaudit.errors import DetectorError, InputError, LmauditError
from lmaudit.testing.tiny import save_tiny_model
from tiny_classifiers import LABELS, save_tiny_classifier

pytestmark = pytest.mark.slow

LONG = "the quick brown fox is not you. " * 12


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_classifier(tmp_path_factory.mktemp("bert"), "bert")


def fails(line, texts=("hello",)):
    with pytest.raises(LmauditError) as caught:
        parse_detector(line).judge(list(texts))
    message = str(caught.value)
    assert message.isprintable(), "one line"
    return message


def by_transformers(folder, text, activation):
    """The model asked plainly: one text, no padding, nothing of ours."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer, module = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForSequenceClassification.from_pretrained(folder),
    )
    encoded = tokenizer(text, return_tensors="pt")
    if module.config.model_type == "distilbert":
        encoded.pop("token_type_ids", None)
    with torch.no_grad():
        logits = module.eval()(**encoded).logits[0]
    return (logits.softmax(-1) if activation == "softmax" else logits.sigmoid()).tolist()


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "gpt2", "llama"])
@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_scores_are_those_of_transformers(tmp_path, family, activation):
    folder = save_tiny_classifier(tmp_path, family)
    texts = ["you", "the cat is here", "a b c d e f g h", "x"]
    verdicts = parse_detector(f"hf:{folder}?label=toxic&activation={activation}&batch_size=4").judge(texts)
    scores = []
    for text, verdict in zip(texts, verdicts, strict=True):
        wanted = by_transformers(folder, text, activation)
        assert list(verdict.attributes) == list(LABELS)
        assert list(verdict.attributes.values()) == pytest.approx(wanted, abs=1e-5)
        assert verdict.score == pytest.approx(wanted[1], abs=1e-5)
        scores.append(verdict.score)
    assert max(scores) - min(scores) > 0.01, "else the models tell nothing apart and the test shows nothing"


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_a_long_text_gets_the_highest_score_of_overlapping_windows(tmp_path, family):
    """Windows are cut by hand here: as long as the model reads, a quarter of the free places shared."""
    folder = save_tiny_classifier(tmp_path, family)
    detector = parse_detector(f"hf:{folder}?activation=softmax")
    model = detector._model
    assert model.max_tokens == 40, "RoBERTa has 42 positions and cannot use two of them"
    (verdict,) = detector.judge([LONG])
    ids = model.tokenizer(LONG, add_special_tokens=False)["input_ids"]
    ends = model.tokenizer("")["input_ids"]
    n_free = 40 - len(ends)
    step, scores = n_free - n_free // 4, []
    for start in range(0, len(ids), step):
        row = [*ends[:1], *ids[start : start + n_free], *ends[1:]]
        with torch.no_grad():
            scores.append(float(model.module(input_ids=torch.tensor([row])).logits.softmax(-1)[0, 1]))
        if start + n_free >= len(ids):
            break
    assert len(scores) > 4
    assert verdict.score == pytest.approx(max(scores), abs=1e-5)
    assert verdict.flags == ("windowed",)
    assert sum(verdict.attributes.values()) == pytest.approx(1, abs=1e-5)


def test_what_just_fits_is_no_window(bert):
    detector = parse_detector(f"hf:{bert}?activation=softmax&max_tokens=10")
    fits, over = detector.judge(["a b c d e f g h", "a b c d e f g h i"])
    assert (fits.flags, over.flags) == ((), ("windowed",))


def test_control_tokens_in_a_text_are_plain_text(bert):
    model = parse_detector(f"hf:{bert}?activation=softmax")._model
    (window,) = model.windows(["a [SEP] [PAD] [CLS] b"])
    ids = window.inputs["input_ids"]
    special = {model.tokenizer.sep_token_id, model.tokenizer.pad_token_id, model.tokenizer.cls_token_id}
    assert not special & set(ids[1:-1])


def test_a_text_without_tokens_is_missing(tmp_path):
    folder = save_tiny_classifier(tmp_path, "gpt2")
    nothing, something = parse_detector(f"hf:{folder}?activation=softmax").judge(["", "a"])
    assert (nothing.score, nothing.missing) == (None, "no tokens in this text")
    assert something.score is not None


@pytest.mark.parametrize(("value", "dtype"), [(float("nan"), "float32"), (float("inf"), "float32"), (1e5, "float16")])
def test_logits_that_are_not_finite_are_missing_and_name_the_dtype(tmp_path, value, dtype):
    def spoil(module):
        module.classifier.weight.data[0, 0] = value

    folder = save_tiny_classifier(tmp_path, "bert", change=spoil)
    (verdict,) = parse_detector(f"hf:{folder}?activation=softmax&dtype={dtype}").judge(["hello"])
    assert verdict.score is None
    assert verdict.missing == f"its logits are not finite in {dtype}; try dtype=float32"


# ── which class, which activation ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("label", "labels", "expected"),
    [
        (None, ("neutral", "toxic"), [1]),
        (None, ("LABEL_0", "Toxicity", "insult"), [1]),
        ("toxic", ("neutral", "Toxic"), [1]),
        ("1", ("neutral", "toxic"), [1]),
        ("1", ("1", "0"), [0]),
        ("0+2", ("a", "b", "c"), [0, 2]),
        ("b,A", ("a", "b", "c"), [0, 1]),
        ("a b", ("a", "b", "c"), [0, 1]),
        ("hate speech", ("hate speech", "hate", "speech"), [0]),
        ("toxic other insult", ("other", "toxic", "other insult"), [1, 2]),
        ("other insult+a", ("a", "other insult", "b"), [0, 1]),
        ("a+a", ("a", "b"), [0]),
    ],
)
def test_classes_are_found_by_name_and_number(label, labels, expected):
    assert toxic_classes(label, labels) == expected


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        (None, ("LABEL_0", "LABEL_1")),
        (None, ("toxic", "severe_toxic")),
        (None, ("toxic", "toxic")),
        ("toxic", ("toxic", "toxic", "x")),
        ("toxic", ("Toxic ", "toxic")),
        ("x+toxic", ("x", "toxic", "toxic")),
        (None, ("toxic", "non-toxic")),
        (None, ("non-toxic", "rude")),
        (None, ("not_toxic", "rude")),
        (None, ("nontoxic", "rude")),
        ("", ("a", "b")),
        ("+", ("a", "b")),
        ("c", ("a", "b")),
        ("a+2", ("a", "b")),
        ("-1", ("a", "b")),
        ("x", ("a\nb\u202e", "b")),
    ],
)
def test_where_no_class_is_plainly_meant_the_error_lists_them(label, labels):
    with pytest.raises(DetectorError, match="label: ") as caught:
        toxic_classes(label, labels)
    assert str(caught.value).isprintable()
    assert labels[1] in str(caught.value)


def test_several_classes_are_added_by_softmax_and_the_largest_by_sigmoid(bert):
    (added,) = parse_detector(f"hf:{bert}?label=toxic+other insult&activation=softmax").judge(["you"])
    (largest,) = parse_detector(f"hf:{bert}?label=toxic+other insult&activation=sigmoid").judge(["you"])
    two = [added.attributes[name] for name in LABELS[1:]]
    assert added.score == pytest.approx(sum(two))
    assert largest.score == max(largest.attributes[name] for name in LABELS[1:])


def test_the_configuration_of_the_model_says_how_its_logits_are_meant(tmp_path):
    for problem, activation in (("multi_label_classification", "sigmoid"), ("single_label_classification", "softmax")):
        folder = save_tiny_classifier(tmp_path / problem, "bert", problem_type=problem)
        (verdict,) = parse_detector(f"hf:{folder}").judge(["you"])
        assert list(verdict.attributes.values()) == pytest.approx(by_transformers(folder, "you", activation), abs=1e-5)


def test_where_it_does_not_say_the_user_has_to(bert):
    message = fails(f"hf:{bert}")
    assert "activation=softmax" in message
    assert "activation=sigmoid" in message


def test_one_class_alone_is_a_sigmoid(tmp_path):
    folder = save_tiny_classifier(tmp_path, "bert", labels=("toxicity",))
    (verdict,) = parse_detector(f"hf:{folder}").judge(["you"])
    assert 0 < verdict.score < 1
    assert "use sigmoid" in fails(f"hf:{folder}?activation=softmax")


# ── what cannot be loaded ─────────────────────────────────────────────────────────────────────────────────


def test_a_model_without_a_trained_head_is_refused(tmp_path):
    """transformers would give it a random one, with a warning."""
    assert "no trained classifier" in fails(f"hf:{save_tiny_model(tmp_path, 'gpt2')}?label=0&activation=sigmoid")


def test_pickled_weights_only_if_asked_for(tmp_path, bert):
    from transformers import AutoModelForSequenceClassification

    folder = shutil.copytree(bert, tmp_path / "pickled")
    torch.save(AutoModelForSequenceClassification.from_pretrained(bert).state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert "allow_pickle=true" in fails(f"hf:{folder}?activation=softmax")
    allowed = parse_detector(f"hf:{folder}?activation=softmax&allow_pickle=true")
    (verdict,), (wanted,) = (d.judge(["you"]) for d in (allowed, parse_detector(f"hf:{bert}?activation=softmax")))
    assert verdict.score == pytest.approx(wanted.score, abs=1e-6)


def test_code_of_a_model_only_if_asked_for(tmp_path, bert):
    folder = shutil.copytree(bert, tmp_path / "stranger")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "stranger", "auto_map": {"AutoConfig": "code.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    assert "trust_remote_code=true" in fails(f"hf:{folder}?activation=softmax")
    assert not (tmp_path / "trace").exists()


def test_damaged_weights_are_told_in_one_line(tmp_path, bert):
    folder = shutil.copytree(bert, tmp_path / "damaged")
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    assert "damaged" in fails(f"hf:{folder}?activation=softmax")


def without_tokenizer(folder):
    for file in [*folder.glob("*token*"), *folder.glob("*vocab*"), *folder.glob("merges*")]:
        file.unlink()


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "gpt2", "llama"])
def test_a_folder_without_a_tokenizer_is_refused(tmp_path, family):
    """transformers makes up an empty one for most."""
    folder = save_tiny_classifier(tmp_path, family)
    without_tokenizer(folder)
    message = fails(f"hf:{folder}?activation=softmax")
    assert "has no tokenizer" in message or "cannot load" in message


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_a_tokenizer_that_was_made_up_is_refused_with_its_settings_in_place(tmp_path, family):
    folder = save_tiny_classifier(tmp_path, family)
    without_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    assert "knows no words" in fails(f"hf:{folder}?activation=softmax")


def test_a_tokenizer_of_unknown_tokens_is_refused(tmp_path, bert):
    folder = shutil.copytree(bert, tmp_path / "empty")
    written = json.loads((folder / "tokenizer.json").read_text())
    written["model"]["vocab"] = {f"[unused {i}]" if i > 3 else t: i for t, i in written["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(written))
    assert "knows no words" in fails(f"hf:{folder}?activation=softmax")


def test_classes_without_a_number_of_their_own_are_told(tmp_path, bert):
    folder = shutil.copytree(bert, tmp_path / "gaps")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "toxic", "2": "b", "5": "c"}
    (folder / "config.json").write_text(json.dumps(config))
    assert "expected id2label for classes 0 to 2, got 0, 2, 5" in fails(f"hf:{folder}?activation=softmax")


def test_classes_of_one_name_are_told_apart_by_their_index(tmp_path):
    folder = save_tiny_classifier(tmp_path, "bert", labels=("toxic", "toxic", "x"))
    assert "several classes are called 'toxic'" in fails(f"hf:{folder}?activation=softmax&label=toxic")
    (verdict,) = parse_detector(f"hf:{folder}?activation=softmax&label=1").judge(["you"])
    assert list(verdict.attributes) == ["toxic (0)", "toxic (1)", "x"]
    assert verdict.score == verdict.attributes["toxic (1)"]


@pytest.mark.parametrize(
    ("limit", "told"), [(1, "so no text fits"), (2, "so no text fits"), (3, None), ("many", "expected a number")]
)
def test_a_model_that_no_text_fits_is_told(tmp_path, bert, limit, told):
    folder = shutil.copytree(bert, tmp_path / "short")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": limit}))
    line = f"hf:{folder}?activation=softmax"
    if told:
        assert told in fails(line)
        assert told in fails(f"{line}&max_tokens=5")
    else:
        assert parse_detector(line).judge(["you are here"])[0].score is not None


def test_files_whose_names_are_not_utf8_are_part_of_the_version(tmp_path, bert):
    folder = shutil.copytree(bert, tmp_path / "odd")
    before = parse_detector(f"hf:{folder}").version
    (folder / os.fsdecode(b"\xff.txt")).write_text("x")
    assert parse_detector(f"hf:{folder}").version != before


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("hf", "expected hf:MODEL"),
        ("hf:~nobody-of-this-name/model", "home"),
        ("hf:./nowhere", "a folder or a Hub id"),
        ("hf:nowhere/at-all", "the Hub cannot be reached"),
        ("hf:a/b?dtype=int8", "dtype"),
        ("hf:a/b?batch_size=0", "batch_size"),
        ("hf:a/b?threshold=x", "threshold"),
        ("detoxify:large", "original, unbiased, multilingual"),
        ("detoxify", "expected detoxify:original|unbiased|multilingual"),
        ("detoxify:original", "the Hub cannot be reached"),
    ],
)
def test_what_cannot_be_had_is_told_in_one_line(line, told):
    assert told in fails(line)


@pytest.mark.parametrize("wanted", [3, 41, 100_000])
def test_a_window_has_to_fit_the_model(bert, wanted):
    assert "max_tokens: expected 4 to 40" in fails(f"hf:{bert}?activation=softmax&max_tokens={wanted}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without cuda")
def test_a_device_that_is_not_there_is_told(bert):
    with pytest.raises(InputError, match="device=cuda: torch finds no such device here; it finds cpu"):
        parse_detector(f"hf:{bert}?activation=softmax&device=cuda").judge(["a"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs cuda")
def test_a_gpu_scores_as_the_cpu_does(bert):
    texts = ["you", LONG, "", "the cat"]
    on = {d: parse_detector(f"hf:{bert}?activation=softmax&device={d}").judge(texts) for d in ("cpu", "cuda")}
    for one, other in zip(on["cpu"], on["cuda"], strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)


# ── versions and the Hub ──────────────────────────────────────────────────────────────────────────────────


def test_the_version_of_a_folder_follows_its_weights_and_not_its_place(tmp_path, bert):
    copy = shutil.copytree(bert, tmp_path / "elsewhere")
    (copy / "README.md").write_text("hello")
    assert parse_detector(f"hf:{copy}").version == parse_detector(f"hf:{bert}").version
    other = save_tiny_classifier(tmp_path / "other", "bert", seed=1)
    assert parse_detector(f"hf:{other}").version != parse_detector(f"hf:{bert}").version


ASK = """
import sys
from lmaudit.detectors import parse_detector
for line in sys.argv[1:]:
    detector = parse_detector(line)
    print(detector.name, detector.version, detector.judge(["you"])[0].score, sep="|")
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OF_THE_HUB = {
    "detoxify:original": ("unitary/toxic-bert", ("toxic", "severe_toxic", "insult")),
    "detoxify:unbiased": ("unitary/unbiased-toxic-roberta", ("toxicity", "severe_toxicity", "insult")),
    "detoxify:multilingual?label=insult": ("unitary/multilingual-toxic-xlm-roberta", ("insult", "toxicity")),
    "hf:someone/some-model?label=1&activation=sigmoid": ("someone/some-model", ("a", "b")),
}


@pytest.fixture(scope="module")
def told_of_the_hub(tmp_path_factory):
    """By line: where the model is, and what its detector says. In a process that has the library's cache elsewhere."""
    cache, folders = tmp_path_factory.mktemp("hub"), {}
    for line, (repository, labels) in OF_THE_HUB.items():
        place = cache / f"models--{repository.replace('/', '--')}"
        folders[line] = place / "snapshots" / COMMIT
        folders[line].mkdir(parents=True)
        save_tiny_classifier(folders[line], "bert", labels=labels)
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text(COMMIT)
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", ASK, *folders]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(folders, zip(folders.values(), done.stdout.splitlines(), strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("line", OF_THE_HUB)
def test_a_model_in_the_cache_of_the_hub_is_used_and_its_commit_told(told_of_the_hub, line):
    """The library's own cache, laid out as it lays it out, without network."""
    folder, told = told_of_the_hub[line]
    name, version, score = told.split("|")
    assert (name, version) == (line, COMMIT)
    counted = 1 if "label=1" in line else 0
    assert float(score) == pytest.approx(by_transformers(folder, "you", "sigmoid")[counted], abs=1e-5)


def test_lone_surrogates_are_replaced_and_pairs_joined():
    assert encodable("a\ud800b") == "a\ufffdb"
    assert encodable("\ud83d\ude42 é 日") == "🙂 é 日"
