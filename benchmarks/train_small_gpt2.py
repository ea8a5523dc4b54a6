"""Trains a small GPT-2 from scratch on English that packages ship: a second model family, where none is at hand.

    python benchmarks/train_small_gpt2.py small-gpt2 --minutes 40
    lmaudit reverse " the day" --model small-gpt2 --prompt-length 3

The text is the prose in docstrings of the installed packages and the standard library, and whatever `--text` names:
folders or files of HTML, Markdown, reStructuredText and plain text, e.g. what a Debian package of documentation
unpacks to. Paragraphs that occur twice are read once. Every 50th document is held out; its perplexity is printed, and
its sentences are written to `held-out.txt`, one a line, as human text that the model never saw.

The folder is a transformers model folder (safetensors, tokenizer.json) from the first checkpoint on. Training stops
after `--minutes` of CPU time, counted over all calls: called again, it goes on from its last checkpoint in `training/`.
On one thread that is wall time where the processor is free, and no step is lost where it is not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch loads
os.environ.setdefault("RAYON_NUM_THREADS", "1")  # read when tokenizers loads

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.utils import logging

from packaged_prose import documents, sentences

END = "<|endoftext|>"
HELD_OUT = 50  # every so-manieth document
PEAK_RATE = 2e-3  # of AdamW; several times that of GPT-2, as models so small bear it
CHECKPOINT_S = 120.0
Ids = NDArray[np.uint16]


@dataclass(frozen=True)
class Size:
    """Of the model and its batches.

    Attributes:
        n_vocabulary: tokens, the special one included; at most 65,536.
        width: D.
        n_layers: blocks.
        n_context: tokens of a training row, and the longest that the model reads.
        n_rows: of a batch.
    """

    n_vocabulary: int = 8192
    width: int = 256
    n_layers: int = 4
    n_context: int = 64
    n_rows: int = 16

    def model(self, end: int) -> GPT2LMHeadModel:
        """An untrained model whose text ends with the token `end`."""
        config = GPT2Config(
            vocab_size=self.n_vocabulary,
            n_embd=self.width,
            n_layer=self.n_layers,
            n_head=max(1, self.width // 64),
            n_positions=self.n_context,
            bos_token_id=end,
            eos_token_id=end,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        return GPT2LMHeadModel(config)


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────


def make_tokenizer(texts: Sequence[str], n_vocabulary: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE in the manner of GPT-2: words carry the space before them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=n_vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, unk_token=END)


def prepare(folder: Path, texts: Sequence[Path], n_characters: int, n_vocabulary: int) -> None:
    """Collect the text, train the tokenizer, and write both parts of the text as ids; once for a folder."""
    found = documents(texts, n_characters)
    random.Random(0).shuffle(found)  # noqa: S311  an order that can be repeated, no secret
    held_out, trained = found[::HELD_OUT], [text for i, text in enumerate(found) if i % HELD_OUT]
    if not held_out or not trained:
        sys.exit(f"expected at least two documents of English prose, found {len(found)}: name more with --text")
    say(f"{len(trained):,} documents, {sum(map(len, trained)):,} characters; {len(held_out):,} held out")
    tokenizer = make_tokenizer(trained, n_vocabulary)
    tokenizer.save_pretrained(folder)
    (folder / "held-out.txt").write_text("".join(f"{line}\n" for line in sentences(held_out)), encoding="utf-8")
    (folder / "training").mkdir(exist_ok=True)
    for name, part in (("held-out", held_out), ("train", trained)):  # the training part last: it says that all is there
        ids = stream(tokenizer, part)
        np.save(folder / "training" / f"{name}.npy", ids)
        say(f"{name}: {len(ids):,} tokens")


def stream(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> Ids:
    """All texts as one row of ids, each between two ends of text."""
    end = tokenizer.eos_token_id
    parts = [[end]]
    for start in range(0, len(texts), 1000):
        encoded = tokenizer(list(texts[start : start + 1000]), add_special_tokens=False)["input_ids"]
        parts += [[*ids, end] for ids in encoded]
    return np.concatenate([np.array(part, dtype=np.uint16) for part in parts])


# ── training ──────────────────────────────────────────────────────────────────────────────────────────────


class Training:
    """A model on its way, and how far it is: `n_steps` and the CPU-seconds that they took over all calls."""

    def __init__(self, folder: Path, size: Size, end: int) -> None:
        self.folder, self.size = folder, size
        torch.manual_seed(0)
        self.model = size.model(end)
        weights = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95))
        self.n_steps, self.seconds = 0, 0.0
        self._load()

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "training" / "checkpoint.pt"

    def _load(self) -> None:
        if self._checkpoint.is_file():
            kept = torch.load(self._checkpoint, weights_only=True)
            self.model.load_state_dict(kept["model"])
            self.optimizer.load_state_dict(kept["optimizer"])
            self.n_steps, self.seconds = kept["n_steps"], kept["seconds"]
            say(f"goes on after {self.n_steps} steps, {self.seconds / 60:.1f} minutes")

    def save(self) -> None:
        """The checkpoint, whole or not at all, and the model folder."""
        beside = self._checkpoint.with_suffix(".new")
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(states | {"n_steps": self.n_steps, "seconds": self.seconds}, beside)
        beside.replace(self._checkpoint)
        self.model.save_pretrained(self.folder)

    def run(self, ids: Ids, minutes: float) -> None:
        """Train until `minutes` are spent, in this call and those before."""
        saved = said = self.seconds
        while self.seconds < 60 * minutes:
            started = time.process_time()
            loss = self._step(ids, self.seconds / (60 * minutes))
            self.seconds += time.process_time() - started
            if self.seconds - said > 30:
                said = self.seconds
                say(f"{said / 60:5.1f} min, step {self.n_steps}, {self.n_tokens:,} tokens, loss {loss:.3f}")
            if self.seconds - saved > CHECKPOINT_S:
                saved = self.seconds
                self.save()
        self.save()

    @property
    def n_tokens(self) -> int:
        """Tokens that were trained on."""
        return self.n_steps * self.size.n_rows * self.size.n_context

    def _step(self, ids: Ids, done: float) -> float:
        """One batch; `done` in [0, 1) is the share of the time that is spent. Returns the loss in nats."""
        for group in self.optimizer.param_groups:
            group["lr"] = (
                PEAK_RATE * min(1.0, (self.n_steps + 1) / 100) * (0.02 + 0.49 * (1 + math.cos(math.pi * done)))
            )
        rows = self._rows(ids)
        loss = self._loss(rows)
        loss.backward()  # type: ignore[no-untyped-call]  # torch ships no type for it
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.n_steps += 1
        return float(loss.detach())

    def _rows(self, ids: Ids) -> Tensor:
        """``(n_rows, n_context + 1)`` windows, the same for a step whatever was stopped before."""
        starts = np.random.default_rng(self.n_steps).integers(0, len(ids) - self.size.n_context, self.size.n_rows)
        return torch.from_numpy(np.stack([ids[i : i + self.size.n_context + 1] for i in starts]).astype(np.int64))

    def _loss(self, rows: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(rows[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())

    @torch.no_grad()
    def perplexity(self, ids: Ids, n_rows: int = 1024) -> float:
        """Of the first `n_rows` whole windows of `ids`."""
        length = self.size.n_context + 1
        n_rows = min(n_rows, len(ids) // length)
        rows = torch.from_numpy(ids[: n_rows * length].reshape(n_rows, length).astype(np.int64))
        parts = [rows[i : i + self.size.n_rows] for i in range(0, n_rows, self.size.n_rows)]
        losses = [float(self._loss(part)) * len(part) for part in parts]
        return math.exp(sum(losses) / n_rows)


def say(*words: Any) -> None:
    """Progress, to stderr."""
    sys.stderr.write(" ".join(map(str, words)) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a small GPT-2 on English that packages ship.")
    parser.add_argument("folder", type=Path, help="model folder; called again, training goes on there")
    parser.add_argument("--minutes", type=float, default=40.0, help="of CPU time for training, over all calls")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="further files and folders of English")
    parser.add_argument("--characters", type=int, default=12_000_000, help="of docstrings at most; 0: none")
    for name, value in asdict(Size()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args()


def main() -> None:
    """Prepare once, train, and print what came out as one JSON object."""
    options = arguments()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    size = Size(**{name: getattr(options, name) for name in asdict(Size())})
    options.folder.mkdir(parents=True, exist_ok=True)
    parts = options.folder / "training"
    if not (parts / "train.npy").is_file():
        prepare(options.folder, options.text, options.characters, size.n_vocabulary)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(options.folder)
    training = Training(options.folder, size, tokenizer.eos_token_id)
    training.run(np.load(parts / "train.npy"), options.minutes)
    done = {
        "held_out_perplexity": round(training.perplexity(np.load(parts / "held-out.npy")), 2),
        "n_tokens": training.n_tokens,
        "n_steps": training.n_steps,
        "cpu_minutes": round(training.seconds / 60, 2),
        "n_parameters": sum(p.numel() for p in training.model.parameters()),
        "size": asdict(size),
    }
    print(json.dumps(done, indent=2))


if __name__ == "__main__":
    main()
