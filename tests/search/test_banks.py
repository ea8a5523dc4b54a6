"""Banks are built once for what decides their content, and kept in memory and on disk."""

from __future__ import annotations

import pytest
import torch
from safetensors import SafetensorError

from lmaudit.frame import Setting
from lmaudit.search.bank import Bank
from lmaudit.search.banks import Banks
from lmaudit.testing.tiny import tiny_model
from small_banks import BUDGET, frame_of


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def get(banks, model, **changes) -> Bank:
    arguments = {"frame": frame_of(model), "allowed": model.vocabulary.usable, "n_tokens": BUDGET, **changes}
    return banks.get(**arguments)


def test_each_is_built_once_and_kept_on_disk(model, tmp_path):
    banks = Banks(model, tmp_path)
    bank = get(banks, model)
    assert get(banks, model) is bank
    assert (banks.n_built, banks.n_tokens) == (1, bank.n_tokens)
    later = Banks(model, tmp_path)
    assert torch.equal(get(later, model).states, bank.states)
    assert get(later, model).n_tokens == bank.n_tokens
    assert later.n_built == 0


def test_what_decides_its_content_decides_its_name(model, tmp_path):
    banks = Banks(model, tmp_path)
    some = model.vocabulary.usable.clone()
    some[5] = False
    get(banks, model)
    for change in (
        {"frame": frame_of(model, 2)},
        {"frame": frame_of(model, prefix="She said")},
        {"frame": frame_of(model, suffix=" so")},
        {"allowed": some},
        {"n_tokens": 2 * BUDGET},
    ):
        n_built = banks.n_built
        get(banks, model, **change)
        assert banks.n_built == n_built + 1
    other = Banks(tiny_model("qwen2", seed=2), tmp_path)
    get(other, other.model)
    assert other.n_built == 1


def test_the_output_does_not(model, tmp_path):
    banks = Banks(model, tmp_path)
    get(banks, model)
    get(banks, model, frame=Setting(model.vocabulary).frame(3, 5))
    assert banks.n_built == 1


@pytest.mark.parametrize("harm", ["cut", "changed", "no bank"])
def test_a_harmed_file_is_built_anew(model, tmp_path, harm):
    bank = get(Banks(model, tmp_path), model)
    (place,) = tmp_path.glob("*.safetensors")
    content = bytearray(place.read_bytes())
    if harm == "changed":
        content[-1] ^= 1
    place.write_bytes({"cut": content[: len(content) // 2], "changed": content, "no bank": b"hello"}[harm])
    banks = Banks(model, tmp_path)
    assert torch.equal(get(banks, model).states, bank.states)
    assert banks.n_built == 1
    assert Banks(model, tmp_path).get(frame_of(model), model.vocabulary.usable, BUDGET).n_tokens == bank.n_tokens


def test_memory_and_disk_are_bounded(model, tmp_path, monkeypatch):
    size = get(Banks(model), model).n_bytes
    monkeypatch.setattr("lmaudit.search.banks._MEMORY_BYTES", int(1.5 * size))
    monkeypatch.setattr("lmaudit.search.banks._DISK_BYTES", int(2.7 * size))
    banks = Banks(model, tmp_path)
    for n_tokens in (BUDGET, BUDGET + 1, BUDGET + 2, BUDGET + 3):
        get(banks, model, n_tokens=n_tokens)
    assert len(banks._kept) == 1
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    get(banks, model, n_tokens=BUDGET + 3)
    assert banks.n_built == 4


def test_a_full_disk_costs_nothing_but_the_time(model, tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    assert len(get(Banks(model, tmp_path), model))
    assert not list(tmp_path.glob("*.safetensors"))


def test_what_is_there_is_read_without_writing(model, tmp_path, monkeypatch):
    get(Banks(model, tmp_path), model)

    def locked(_):
        raise OSError("read-only file system")

    monkeypatch.setattr("lmaudit.search.banks.exclusive_scratch", locked)
    later = Banks(model, tmp_path)
    get(later, model)
    assert later.n_built == 0


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_time(model, tmp_path):
    (tmp_path / "file").write_text("no folder")
    banks = Banks(model, tmp_path / "file" / "banks")
    assert len(get(banks, model))
