"""The benchmark runs end to end on a tiny model, and what it compares is the same search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "step_cost.py"
N_VOCABULARY = 257  # every byte, and an end token


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama that reads bytes."""
    place = tmp_path_factory.mktemp("tiny")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate([*alphabet, "<end>"])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(place)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=N_VOCABULARY, **sizes, **heads)).save_pretrained(place)
    return place


def run(folder: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, str(SCRIPT), "--model", str(folder), "--device", "cpu", "--quick", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_everything_is_measured_and_the_choices_are_the_same(folder: Path) -> None:
    results = run(folder, "--threads", "1")
    assert results["identical_choices"] is True
    assert results["lockstep_rows_equal"] is True
    for key in ("speedup_alone_m3_n2", "speedup_lockstep8_m3_n2", "share_of_peak_lockstep8_m3_n2"):
        assert results[key] > 0, key
    assert results["lockstep16_share_m3_n2"] > 0
    assert results["settings"]["threads"] == 1
    has_bf16 = results["why_no_bf16"] is None
    assert (results["speedup_lockstep8_bf16_m3_n2"] is not None) == has_bf16


@pytest.mark.parametrize(
    ("part", "present", "absent"),
    [
        ("step", "speedup_alone_m3_n2", "share_of_peak_lockstep8_m3_n2"),
        ("peak", "share_of_peak_lockstep8_m3_n2", "speedup_alone_m3_n2"),
        ("lockstep", "lockstep16_share_m3_n2", "peak_gflops"),
    ],
)
def test_one_part_alone(folder: Path, part: str, present: str, absent: str) -> None:
    results = run(folder, "--only", part)
    assert present in results
    assert absent not in results
