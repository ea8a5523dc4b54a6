import io
import json
import pickle
import pickletools
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmaudit.detectors import parse_detector
from lmaudit.detectors.inert_pickle import Inert, read_inert
from lmaudit.detectors.toxblock import Vocabulary
from lmaudit.detectors.toxblock_files import ENCODER, WEIGHTS, converted, read_vocabulary, read_weights
from lmaudit.errors import DetectorError
from lmaudit.packaged import fetch_all
from sass import measured, sass_rows
from without import told_without

LABELS = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]


@pytest.fixture(scope="module")
def files():
    pytest.importorskip("h5py", reason="pip install 'lmaudit[detectors]'")
    return fetch_all([WEIGHTS, ENCODER])


@pytest.mark.usefixtures("files")
@pytest.mark.real
@pytest.mark.parametrize("line", ["toxblock", "toxblock?rescale=false"])
def test_scores_sass_as_measured_independently(line):
    """At 0.5 both readings call the same texts toxic."""
    assert measured(parse_detector(line)) == (0.227, 0.028, 0.049, 0.228)


@pytest.mark.real
def test_computes_what_the_layers_of_its_file_say(files):
    """Keras' definitions written down in numpy, one word at a time, straight from the file."""
    texts = ["", "You are such an idiot!", "what a lovely morning " * 40, *[row["text"] for row in sass_rows()[70:100]]]
    verdicts = parse_detector("toxblock?rescale=false").judge(texts)
    for text, verdict in zip(texts, verdicts, strict=True):
        scores = [verdict.attributes[label] for label in LABELS]
        assert scores == pytest.approx(by_hand(files[0], words_of(files[1], text)), abs=1e-6)


@cache
def tokenizer_of(encoder):
    return read_inert(encoder).attribute("tokenizer")


def words_of(encoder, text):
    tokenizer = tokenizer_of(encoder)
    for character in tokenizer.attribute("filters"):
        text = text.replace(character, " ")
    numbers = (tokenizer.attribute("word_index").get(word) for word in text.lower().split(" "))
    known = [number for number in numbers if number is not None and number < 20_000][-100:]
    return [0] * (100 - len(known)) + known


@cache
def arrays(weights):
    import h5py

    with h5py.File(weights, "r") as file:
        layers = json.loads(file.attrs["model_config"])["config"]["layers"]
        lstm = next(layer for layer in layers if layer["name"] == "bidirectional")["config"]
        embedding = next(layer for layer in layers if layer["name"] == "embedding")["config"]
        assert (lstm["merge_mode"], lstm["layer"]["config"]["recurrent_activation"]) == ("concat", "hard_sigmoid")
        assert (lstm["layer"]["config"]["activation"], embedding["mask_zero"]) == ("tanh", False)
        return {name: np.array(file[f"model_weights/{name}"], dtype=np.float64) for name in names(file)}


def by_hand(weights, ids):
    w = arrays(weights)
    words = w["embedding/embedding/embeddings:0"][ids]
    states = []
    for direction, steps in (("forward", words), ("backward", words[::-1])):
        place = f"bidirectional/bidirectional/{direction}_lstm/"
        kernel, recurrent, bias = (w[place + part] for part in ("kernel:0", "recurrent_kernel:0", "bias:0"))
        h, c, outputs = np.zeros(50), np.zeros(50), []
        for word in steps:
            z = word @ kernel + h @ recurrent + bias
            i, f, o = (np.clip(0.2 * z[start : start + 50] + 0.5, 0, 1) for start in (0, 50, 150))
            c = f * c + i * np.tanh(z[100:150])
            h = o * np.tanh(c)
            outputs.append(h)
        states.append(np.array(outputs[:: 1 if direction == "forward" else -1]))
    pooled = np.concatenate(states, axis=1).max(axis=0)
    hidden = np.maximum(pooled @ w["dense/dense/kernel:0"] + w["dense/dense/bias:0"], 0)
    return 1 / (1 + np.exp(-(hidden @ w["dense_1/dense_1/kernel:0"] + w["dense_1/dense_1/bias:0"])))


def names(file):
    found = []
    file["model_weights"].visit(lambda name: found.append(name) if name.endswith(":0") else None)
    return found


@pytest.mark.usefixtures("files")
@pytest.mark.real
def test_a_text_with_more_than_100_known_words_is_cut_and_says_so():
    tail = "you are an idiot " * 25
    whole, cut, short = parse_detector("toxblock").judge([tail, "the morning was lovely " * 5 + tail, "xqzzy " * 500])
    assert (whole.flags, cut.flags, short.flags) == ((), ("cut",), ())
    assert cut.score == whole.score


@pytest.mark.usefixtures("files")
@pytest.mark.real
def test_rescaling_stays_between_0_and_1_and_each_label_can_be_chosen():
    texts = ["", "the", "I will kill you, you bastard", *[row["text"] for row in sass_rows()]]
    for label in LABELS:
        for verdict in parse_detector(f"toxblock?label={label}").judge(texts):
            assert verdict.score == verdict.attributes[label]
    plain = parse_detector("toxblock?rescale=false").judge(texts[2:3])[0].attributes["threat"]
    scaled = parse_detector("toxblock?label=threat").judge(texts[2:3])[0].score
    assert scaled == pytest.approx((plain - 0.000040) / (0.918887 - 0.000040))


@pytest.mark.usefixtures("files")
@pytest.mark.real
def test_is_converted_once_and_then_needs_no_h5py():
    assert told_without("toxblock", ["h5py"]).startswith("[Verdict(score=")
    assert {file.name for file in converted().iterdir()} == {"model.safetensors", "vocabulary.json"}


@pytest.mark.slow
def test_without_h5py_nothing_is_fetched_and_one_line_says_what_to_install(tmp_path):
    told = told_without("toxblock", ["h5py"], LMAUDIT_CACHE=str(tmp_path))
    assert told == "detector toxblock needs h5py, which is not here; pip install h5py"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_network_one_line_says_so(tmp_path):
    pytest.importorskip("h5py", reason="pip install 'lmaudit[detectors]'")
    told = told_without(
        "toxblock", [], LMAUDIT_CACHE=str(tmp_path), PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0"
    )
    assert told.startswith("detector toxblock: ")
    assert "tox-block==0.1.2" in told
    assert "\n" not in told


def test_another_file_is_refused_in_one_line(tmp_path):
    pytest.importorskip("h5py", reason="pip install 'lmaudit[detectors]'")
    (tmp_path / "weights.h5").write_bytes(b"no weights")
    (tmp_path / "encoder.pkl").write_bytes(pickle.dumps({"tokenizer": 3}))
    for read, name in ((read_weights, "weights.h5"), (read_vocabulary, "encoder.pkl")):
        with pytest.raises(DetectorError, match=f"tox-block==0.1.2 in {name}, got another") as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_words_are_those_of_the_keras_tokenizer():
    """Separators are its filters only: a no-break space or a carriage return stays within its word."""
    separators = dict.fromkeys(map(ord, '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'), " ")
    vocabulary = Vocabulary({"you": 1, "don't": 2, "nice": 3, "é": 4}, separators, 4)
    assert vocabulary.ids("YOU, you_You  don't!\tnice\nÉ") == [1, 1, 1, 2, 3, 4]
    assert vocabulary.ids("you\u00a0you you\ryou unknown") == []
    assert vocabulary.row([1, 2]) == [0, 0, 1, 2]
    assert vocabulary.row([1, 2, 3, 4, 3, 2]) == [3, 4, 3, 2]


# ── pickles that want to do something ─────────────────────────────────────────────────────────────────────


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.call


def attacks(trace):
    """Programs that would leave the file `trace`."""
    import builtins
    import os

    command = f"open({str(trace)!r}, 'w').close()"
    touch = f"touch {trace}"
    return {
        "system": pickle.dumps(Calls(os.system, touch)),
        "eval": pickle.dumps(Calls(builtins.eval, command), protocol=2),
        "exec": pickle.dumps(Calls(builtins.exec, command), protocol=4),
        "open": pickle.dumps(Calls(open, str(trace), "w"), protocol=5),
        "process": pickle.dumps(Calls(subprocess.Popen, ["touch", str(trace)])),
        "path": pickle.dumps(Calls(Path.touch, Path(trace))),
        "getattr": pickle.dumps(Calls(getattr, Calls(__import__, "os"), "system")),
        "state": pickle.dumps(Calls(io.StringIO, state={"x": Calls(os.system, touch)})),
        "in a container": pickle.dumps({"tokenizer": [Calls(os.system, touch)], Calls(os.system, touch): 1}),
        "protocol 0": pickle.dumps(Calls(os.system, touch), protocol=0),
        "INST": f"(S'{touch}'\nios\nsystem\n.".encode(),
        "OBJ": f"(cos\nsystem\nS'{touch}'\no.".encode(),
        "NEWOBJ": b"\x80\x02cos\nsystem\n(U" + bytes([len(touch)]) + touch.encode() + b"t\x81.",
        "two calls": f"cbuiltins\neval\n(S{command!r}\ntR0cos\nsystem\n(S'{touch}'\ntR.".encode(),
        "BUILD on a class": b"cos\nsystem\n}S'__setstate__'\ncbuiltins\neval\nsb.",
        "BUILD on a list": b"](S'__class__'\ncos\nsystem\nsb.",
        "call of a call": f"cos\nsystem\n(S'x'\ntR(S'{touch}'\ntR.".encode(),
        "persistent": b"\x80\x02X\x01\x00\x00\x00aQ.",
        "extension": b"\x80\x02\x82\x01.",
        "cut": pickle.dumps(Calls(os.system, touch))[:-3],
        "nothing": b"",
        "text": b"hello",
        "no text": b"\x80\x02X\x02\x00\x00\x00\xff\xff.",
    }


@pytest.mark.parametrize("name", attacks("x"))
def test_a_pickle_that_wants_to_run_something_does_nothing(tmp_path, name):
    trace = tmp_path / "trace"
    file = tmp_path / "encoder.pkl"
    file.write_bytes(attacks(trace)[name])
    with pytest.raises(DetectorError, match=r"encoder\.pkl") as caught:
        read_vocabulary(file)
    assert str(caught.value).isprintable()
    assert not trace.exists()


def test_the_attacks_would_work_on_a_trusting_reader(tmp_path):
    """Else the test above shows nothing."""
    trace = tmp_path / "trace"
    for name in ("system", "eval", "exec", "open", "path", "protocol 0", "INST", "OBJ", "in a container", "two calls"):
        try:
            pickle.loads(attacks(trace)[name])  # noqa: S301  # that is the point
        except TypeError:  # what comes after the call fails
            assert name == "in a container"  # of the one that has something after it
        assert trace.exists(), name
        trace.unlink()


def test_what_a_pickle_holds_is_kept_as_data(tmp_path):
    from collections import OrderedDict, defaultdict

    held = {
        "plain": [1, 2.5, "é", b"x", None, True, (1,), {2}, frozenset({3}), 10**30],
        "ordered": OrderedDict(a=1),
        "counts": defaultdict(int, b=2),
        "object": Calls.__new__(Calls),
    }
    held["itself"] = held["plain"]
    held["object"].call = (dict, ())
    for protocol in range(2, 6):
        (tmp_path / "p").write_bytes(pickle.dumps({k: v for k, v in held.items() if k != "object"}, protocol=protocol))
        read = read_inert(tmp_path / "p")
        assert read["itself"] is read["plain"]
        if protocol >= 4:  # older ones make sets by a call, which stays undone
            assert read["plain"] == held["plain"]
        assert (read["ordered"].origin, read["ordered"].items) == ("collections.OrderedDict", {"a": 1})
        assert read["counts"].items == {"b": 2}
        assert isinstance(read["counts"].arguments[0], type)
        assert issubclass(read["counts"].arguments[0], Inert)


# A place in the memo or a size may be any number, and reserves memory for it: these opcodes are left out.
_RESERVES = {ord("r"), ord("p"), 0x96}
_OPCODES = [ord(op.code) for op in pickletools.opcodes if ord(op.code) not in _RESERVES]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(_OPCODES) | st.sampled_from([*b"os\nsystem\n012", 0, 1, 2]), max_size=60),
    st.binary(max_size=3),
)
def test_any_bytes_are_data_or_one_line(tmp_path_factory, opcodes, tail):
    file = tmp_path_factory.getbasetemp() / "any.pkl"
    file.write_bytes(bytes(opcodes) + bytes(b for b in tail if b not in _RESERVES) + b".")
    try:
        read_inert(file)
    except DetectorError as error:
        assert str(error).isprintable()  # noqa: PT017  # data is as good
