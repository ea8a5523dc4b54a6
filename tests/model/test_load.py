"""What can stand behind ``--model``, and one line that says what to do when it cannot be used."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lmaudit.errors import InputError, ModelError
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.model.load import ModelSpec, load_model
from lmaudit.testing.tiny import FAMILIES, save_tiny_model, tiny_model


def failure(spec: ModelSpec | str, error: type[Exception] = ModelError) -> str:
    with pytest.raises(error) as caught:
        load_model(spec)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "tiny", "llama", width=16)


def set_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


# ── what loads ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_folder_gives_the_model_that_was_saved(tmp_path, family):
    expected = tiny_model(family, width=16)
    loaded = load_model(str(save_tiny_model(tmp_path, family, width=16)))
    assert loaded.fingerprint() == expected.fingerprint()
    assert loaded.vocabulary.strings == expected.vocabulary.strings
    assert loaded.shares_prefixes == expected.shares_prefixes
    assert (loaded.name, loaded.revision) == (str(tmp_path), None)
    rows = torch.tensor([[10, 20, 30, 40, 50, 60], [10, 20, 30, 41, 51, 61]])
    ours, theirs = (m.score(Block(rows, 3, (1, 3, 5))) for m in (loaded, expected))
    torch.testing.assert_close(ours.logprob, theirs.logprob)


def test_auto_means_float32_on_a_cpu_whatever_the_weights_are(folder):
    model = tiny_model("llama", width=16)
    model.module.half().save_pretrained(folder)
    assert load_file(folder / "model.safetensors")["lm_head.weight"].dtype == torch.float16
    loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
    assert (loaded.dtype, loaded.device) == (torch.float32, torch.device("cpu"))
    assert load_model(ModelSpec(name=str(folder), device="cpu", dtype="bfloat16")).dtype == torch.bfloat16


def test_rows_beyond_the_tokenizer_are_not_usable(tmp_path):
    model = load_model(str(save_tiny_model(tmp_path, "qwen2", vocabulary_size=150, surplus_rows=14)))
    assert model.vocabulary.n_rows == model.embeddings.shape[0] == 164
    assert not model.vocabulary.usable[150:].any()
    assert model.vocabulary.usable[:150].any()


def test_a_model_that_keeps_a_state_instead_of_keys_and_values_is_scored_row_by_row(tmp_path):
    model = load_model(str(save_tiny_model(tmp_path, "mamba", width=16)))
    assert not model.shares_prefixes
    rows = torch.tensor([[10, 20, 30, 40, 50], [10, 20, 30, 41, 51]])
    reads = (1, 2, 3, 4)
    with torch.no_grad():
        logprobs = model.module(input_ids=rows).logits[:, :-1].log_softmax(-1)
    expected = logprobs.gather(-1, rows[:, 1:, None])[..., 0]
    for split in range(5):
        torch.testing.assert_close(model.score(Block(rows, split, reads)).logprob, expected, atol=1e-4, rtol=1e-4)


def test_a_model_whose_cache_disagrees_is_found_out(folder, monkeypatch):
    """One that reads its cache wrongly, without an error of its own."""
    real = LanguageModel._fed

    def forgetful(self, block):
        fed, parents, cache, offset = real(self, block)
        for layer in cache.layers if cache else ():
            layer.values = torch.zeros_like(layer.values)
        return fed, parents, cache, offset

    assert load_model(str(folder)).shares_prefixes
    monkeypatch.setattr(LanguageModel, "_fed", forgetful)
    assert not load_model(str(folder)).shares_prefixes


# ── what does not ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "nowhere", "no/where/else", "~/no-such-model"])
def test_nothing_there(name):
    message = failure(name)
    assert repr(name) in message
    assert "a folder (seen from where the command runs), a .gguf file or a Hub id" in message
    assert "smollm2" in message


def test_a_folder_without_a_model(tmp_path):
    assert "config.json" in failure(str(tmp_path))


def test_a_file_that_is_not_a_model(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("nothing")
    assert "expected a known name" in failure(str(file))


def test_a_gguf_file_that_is_missing_or_none(tmp_path):
    assert "check the path" in failure(str(tmp_path / "missing.gguf"))
    (tmp_path / "none.gguf").write_bytes(b"nothing")
    assert "GGUF" in failure(str(tmp_path / "none.gguf"), InputError)


@pytest.mark.slow
def test_a_model_in_the_cache_of_the_hub_is_used_and_its_commit_told(tmp_path: Path) -> None:
    """The library's own cache, laid out as it lays it out, without network; in a process that reads the setting."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--someone--some-model"
    (place / "snapshots").mkdir(parents=True)
    save_tiny_model(place / "snapshots" / commit, "llama", width=16)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    ask = "from lmaudit import load_model; print(load_model('someone/some-model').revision)"
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == commit, done.stderr[-2000:]


def test_a_hub_id_without_network():
    """The suite runs with the Hub switched off."""
    message = failure("nobody-at-all/no-such-model")
    assert "Hub cannot be reached" in message
    assert "local folder" in message


@pytest.mark.parametrize("damage", ["truncated", "not one", "empty", "lies"])
def test_damaged_weights(folder, damage):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    header = b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}'
    file.write_bytes({
        "truncated": whole[: len(whole) // 2],
        "not one": b"this is not a file of weights " * 20,
        "empty": b"",
        "lies": struct.pack("<Q", len(header)) + header + b"\0" * 16,
    }[damage])  # fmt: skip
    message = failure(str(folder))
    assert f"cannot load {folder}: its weights are damaged (" in message
    assert "again" in message
    assert "allow-pickle" not in message, "that would not help"


def test_a_folder_without_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "cannot load" in failure(str(folder))


def test_a_configuration_that_is_no_json(folder):
    (folder / "config.json").write_text("{")
    assert "cannot load" in failure(str(folder))


def test_an_unknown_architecture(folder):
    set_config(folder, model_type="perpetuum", architectures=["PerpetuumForCausalLM"])
    assert "perpetuum" in failure(str(folder))


# ── what may not run ──────────────────────────────────────────────────────────────────────────────────────


def test_pickled_weights_are_refused_unless_asked_for(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    message = failure(str(folder))
    assert "no safetensors weights" in message
    assert "--allow-pickle" in message
    loaded = load_model(ModelSpec(name=str(folder), allow_pickle=True))
    assert loaded.fingerprint() == tiny_model("llama", width=16).fingerprint()


REMOTE_CODE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import LlamaConfig, LlamaForCausalLM
class Config(LlamaConfig):
    model_type = "stranger"
class Model(LlamaForCausalLM):
    config_class = Config
"""


@pytest.fixture
def stranger(folder, tmp_path, monkeypatch) -> Path:
    """A model that comes with Python code, which leaves a mark when it runs."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    (folder / "code.py").write_text(REMOTE_CODE.format(marker=str(tmp_path / "marker")))
    set_config(
        folder,
        model_type="stranger",
        auto_map={"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
    )
    return folder


def test_code_that_comes_with_a_model_does_not_run(stranger, tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("nobody may be asked in the middle of a run"))
    message = failure(str(stranger))
    assert "--trust-remote-code" in message
    assert not (tmp_path / "marker").exists()


def test_code_of_a_known_architecture_does_not_run_either(stranger, tmp_path):
    set_config(stranger, model_type="llama")
    load_model(str(stranger))
    assert not (tmp_path / "marker").exists()


def test_code_runs_when_it_is_trusted(stranger, tmp_path):
    load_model(ModelSpec(name=str(stranger), trust_remote_code=True))
    assert (tmp_path / "marker").exists()


# ── what the machine does not have ────────────────────────────────────────────────────────────────────────


def test_half_precision_on_a_cpu_is_refused(folder):
    message = failure(ModelSpec(name=str(folder), device="cpu", dtype="float16"), InputError)
    assert "--dtype float16" in message
    assert "bfloat16" in message


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(folder, device, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    message = failure(ModelSpec(name=str(folder), device=device), InputError)
    assert f"--device {device}" in message
    assert message.endswith("it finds cpu")


# ── what could not be audited ─────────────────────────────────────────────────────────────────────────────


def test_too_few_usable_tokens(folder):
    """A tokenizer of markup alone."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    roles = {"unk_token": "<unk>"}
    backend = Tokenizer(WordLevel({"a": 0, "b": 1, "<unk>": 2}, **roles))
    PreTrainedTokenizerFast(tokenizer_object=backend, **roles).save_pretrained(folder)
    assert "only 2 usable tokens" in failure(str(folder))


def test_weights_that_give_no_gradient(folder, monkeypatch):
    def frozen(*_: object) -> None:
        raise RuntimeError("derivative for quantized_linear is not implemented")

    monkeypatch.setattr(LanguageModel, "gradient", frozen)
    model = load_model(str(folder))
    assert model.no_gradients == "RuntimeError: derivative for quantized_linear is not implemented"
