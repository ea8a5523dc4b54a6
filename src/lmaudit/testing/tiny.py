"""Tiny random language models of many families, each with a tokenizer of its own, made in milliseconds.

For tests of what audits a model: nothing is fetched, nothing runs long, and yet everything that goes wrong with large
models goes wrong here too, because the families and the tokenizers are the real ones in small::

    model = tiny_model("gemma", seed=3)  # in memory
    folder = save_tiny_model(tmp_path / "tiny", "llama")  # safetensors and tokenizer, for `load_model`

The weights are random but far from flat: distributions have a clear favourite, greedy completions differ between
prompts, and gradients are large enough to be compared with finite differences.

Four tokenizers:

* ``bytes``: byte-level BPE in the manner of GPT-2. No BOS, no pad token, one special token ``<|endoftext|>``.
* ``chat``: the same with ``<|im_start|>``, ``<|im_end|>`` and a chat template, in the manner of Qwen.
* ``spaces``: BPE over texts whose spaces are written ``▁``, with byte fallback, in the manner of Llama. It puts ``<s>``
  before every text and a space before the first word, and has a chat template with a BOS of its own.
* ``gemma``: the same without that space, in the manner of Gemma, with a template that trims the message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from lmaudit.errors import InputError
from lmaudit.model.huggingface import LanguageModel

TokenizerKind = Literal["bytes", "chat", "spaces", "gemma"]

_WORDS = (
    *(" the", " Ed", " ed", " cat", " Cat", " cats", " pig", " pigs", " a", " is", " said", " She", " man", " men"),
    *(" Donald", " on", " mat", " 1", " 20", "the", "The", "cat", "Cat", "pig", "Ed", "ing", "er", "in", "\n\n"),
)
"""Words that are tokens, the space before them included; so are their beginnings, as in every BPE vocabulary."""
_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,!?'-\n"
_FURTHER = '"#$%&()*+/:;<=>@[]^_`{|}~\\\t\0'
_FIRST_BYTES = "🙂éß–".encode()  # characters that take several tokens, none of which is a text of its own

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_ANGLES = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_TURNS = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
    "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)

_SPECIAL: dict[TokenizerKind, tuple[str, ...]] = {
    "bytes": ("<|endoftext|>",),
    "chat": ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    "spaces": ("<unk>", "<s>", "</s>"),
    "gemma": ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
}
_ROLES: dict[TokenizerKind, dict[str, str]] = {
    "bytes": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "chat": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": _CHATML},
    "spaces": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "chat_template": _ANGLES},
    "gemma": {
        **{"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"},
        "chat_template": _TURNS,
    },
}


@dataclass(frozen=True)
class Family:
    """How a tiny model of one family is made.

    Attributes:
        model_type: of its transformers configuration.
        tokenizer: which of the tokenizers it has.
        settings: of its configuration, besides what all families get.
        layer_setting: name of the setting for the number of layers.
        width_setting: name of the setting for D.
        spread: standard deviation of the entries of the embedding table; less where the model scales its rows, or
            the last token would drown what the layers say of it.
        gain: by which a layer enlarges what it reads.
        shares_prefixes: whether it keeps keys and values, so that rows can share those of a prefix.
    """

    model_type: str
    tokenizer: TokenizerKind
    settings: dict[str, Any] = field(default_factory=dict)
    layer_setting: str = "num_hidden_layers"
    width_setting: str = "hidden_size"
    spread: float = 0.5
    gain: float = 2.0
    shares_prefixes: bool = True


_GROUPED = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
_UNTIED = {**_GROUPED, "tie_word_embeddings": False}
_GEMMA = {**_GROUPED, "head_dim": 8}
_WINDOWED = {**_GEMMA, "query_pre_attn_scalar": 8, "sliding_window": 4, "tie_word_embeddings": False}
_GEMMA2 = {**_WINDOWED, "final_logit_softcapping": 8.0}
_MAMBA = {"state_size": 4, "time_step_rank": 4, "tie_word_embeddings": False}
_GPT = {"n_head": 4, "n_positions": 128}
_GPTJ = {**_GPT, "rotary_dim": 4}

FAMILIES: dict[str, Family] = {
    "gpt2": Family("gpt2", "bytes", _GPT, layer_setting="n_layer", width_setting="n_embd"),
    "gptj": Family("gptj", "bytes", _GPTJ, layer_setting="n_layer", width_setting="n_embd"),
    "llama": Family("llama", "spaces", _UNTIED),
    "mistral": Family("mistral", "spaces", {**_UNTIED, "sliding_window": 4}),
    "qwen2": Family("qwen2", "chat", _UNTIED),
    "qwen3": Family("qwen3", "chat", {**_UNTIED, "head_dim": 8}),
    "gemma": Family("gemma", "gemma", _GEMMA, spread=0.3),
    "gemma2": Family("gemma2", "gemma", _GEMMA2, spread=0.2),
    "gemma3": Family("gemma3_text", "gemma", _WINDOWED, spread=0.2),
    "mamba": Family("mamba", "bytes", _MAMBA, gain=1.0, shares_prefixes=False),
}
"""By name: GPT-2 and GPT-J; Llama; Mistral with a window of 4 tokens; Qwen 2 and 3; Gemma, which scales its embeddings,
Gemma 2, which also caps its logits, Gemma 3, with windows; Mamba, which keeps a state instead of keys and values."""


def tiny_model(
    family: str = "gpt2",
    *,
    seed: int = 0,
    vocabulary_size: int = 200,
    surplus_rows: int = 0,
    layers: int = 2,
    width: int = 32,
    dtype: torch.dtype = torch.float32,
) -> LanguageModel:
    """A tiny random model in memory.

    Args:
        family: a key of `FAMILIES`.
        seed: of the weights; the same seed gives the same model. The global seed is left alone.
        vocabulary_size: tokens of the tokenizer, see `tiny_tokenizer`.
        surplus_rows: rows of the embedding beyond the tokenizer's entries, as many published models have them.
        layers: at least 1.
        width: D, a multiple of 8.
        dtype: of the weights; float64 is good for finite differences.

    Raises:
        InputError: the family is unknown or a size cannot be had.
    """
    tokenizer, module = _parts(
        family, seed=seed, vocabulary_size=vocabulary_size, surplus_rows=surplus_rows, layers=layers, width=width
    )
    model = LanguageModel(module.to(dtype), tokenizer, name=f"tiny-{family}")
    model.shares_prefixes = FAMILIES[family].shares_prefixes
    return model


def save_tiny_model(
    folder: Path,
    family: str = "gpt2",
    *,
    seed: int = 0,
    vocabulary_size: int = 200,
    surplus_rows: int = 0,
    layers: int = 2,
    width: int = 32,
) -> Path:
    """Write the model that `tiny_model` makes, in float32 with its tokenizer, into `folder`, and return that.

    Raises:
        InputError: the family is unknown or a size cannot be had.
    """
    tokenizer, module = _parts(
        family, seed=seed, vocabulary_size=vocabulary_size, surplus_rows=surplus_rows, layers=layers, width=width
    )
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_tokenizer(kind: TokenizerKind = "bytes", *, size: int = 200) -> PreTrainedTokenizerFast:
    """A tokenizer of `size` tokens.

    Args:
        kind: see the module.
        size: the number of tokens, special ones included. A smaller tokenizer is the beginning of a larger one: first
            special tokens, letters, digits and common punctuation, then words, then the other characters of ASCII,
            bytes of some characters beyond it, and all other bytes. What is not covered cannot be encoded.

    Raises:
        InputError: `size` is too small for letters and digits, or more than there is to fill.
    """
    special = _SPECIAL[kind]
    symbols = [symbol for character in _CHARACTERS for symbol in _symbols(kind, character)]
    words = [_symbols(kind, word) for word in _WORDS]
    beginnings = [word[:n] for word in words for n in range(2, len(word) + 1) if "<0x0A>" not in word]
    further = [symbol for character in _FURTHER for symbol in _symbols(kind, character)]
    rest = [_byte_symbol(kind, byte) for byte in (*_FIRST_BYTES, *range(256))]
    tokens = list(dict.fromkeys([*special, *symbols, *map("".join, beginnings), *further, *rest]))
    least = len(special) + len(symbols)
    if not least <= size <= len(tokens):
        raise InputError(f"expected a vocabulary size between {least} and {len(tokens)}, got {size}")
    vocabulary = {token: i for i, token in enumerate(tokens[:size])}
    merges = dict.fromkeys(("".join(part[:-1]), part[-1]) for part in beginnings if "".join(part) in vocabulary)
    return _assemble(kind, vocabulary, list(merges))


# ── tokenizers ────────────────────────────────────────────────────────────────────────────────────────────


def _assemble(
    kind: TokenizerKind, vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> PreTrainedTokenizerFast:
    roles = _ROLES[kind]
    fallback = kind in ("spaces", "gemma")
    backend = Tokenizer(BPE(vocabulary, merges, unk_token=roles.get("unk_token"), byte_fallback=fallback))
    if fallback:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{roles['bos_token']} $A", special_tokens=[(roles["bos_token"], vocabulary[roles["bos_token"]])]
        )
        decoding = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        if kind == "spaces":
            backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
            decoding.append(decoders.Strip(" ", 1, 0))
        else:
            backend.normalizer = normalizers.Replace(" ", "▁")
        backend.decoder = decoders.Sequence(decoding)
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in _SPECIAL[kind]])
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **roles)


def _symbols(kind: TokenizerKind, text: str) -> tuple[str, ...]:
    """What `text` is made of before anything is merged."""
    if kind in ("bytes", "chat"):
        return tuple(_byte_symbol(kind, byte) for byte in text.encode())
    as_byte = "\n\0" if kind == "spaces" else "\0"  # Llama's vocabulary has no line break but as a byte
    return tuple(_byte_symbol(kind, ord(c)) if c in as_byte else c.replace(" ", "▁") for c in text)


def _byte_symbol(kind: TokenizerKind, byte: int) -> str:
    if kind in ("spaces", "gemma"):
        return f"<0x{byte:02X}>"
    # GPT-2 writes a byte as a character that can be seen: its own where it has one, else one from 256 on, in order.
    unseen = [b for b in range(256) if not (33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255)]
    return chr(256 + unseen.index(byte)) if byte in unseen else chr(byte)


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────


def _parts(
    family: str, *, seed: int, vocabulary_size: int, surplus_rows: int, layers: int, width: int
) -> tuple[PreTrainedTokenizerFast, Any]:
    if family not in FAMILIES:
        raise InputError(f"expected a family of tiny models ({', '.join(sorted(FAMILIES))}), got {family!r}")
    if layers < 1 or width < 8 or width % 8 or surplus_rows < 0:
        raise InputError(
            "expected at least one layer, a width that is a multiple of 8 and no fewer than 0 surplus rows, got "
            f"{layers}, {width} and {surplus_rows}"
        )
    recipe = FAMILIES[family]
    tokenizer = tiny_tokenizer(recipe.tokenizer, size=vocabulary_size)
    roles = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    sizes = {recipe.layer_setting: layers, recipe.width_setting: width, "vocab_size": vocabulary_size + surplus_rows}
    config = AutoConfig.for_model(recipe.model_type, **{**roles, **recipe.settings, **sizes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # most of what the library draws here is replaced at once, but not all
        module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _randomise(module, recipe, torch.Generator().manual_seed(seed))
    return tokenizer, module


@torch.no_grad()
def _randomise(module: Any, recipe: Family, random: torch.Generator) -> None:
    """Weights with which every layer changes what the next one sees, and logits spread over several nats."""
    table = module.get_input_embeddings().weight
    for name, weight in sorted(module.named_parameters()):
        noise = torch.randn(weight.shape, generator=random)
        if weight is table:
            weight.copy_(recipe.spread * noise)
        elif weight.dim() < 2 or name.endswith("A_log"):  # norms, biases, decays: about what the library set
            weight.add_(0.1 * noise)
        else:
            weight.copy_(recipe.gain * noise / math.sqrt(weight[0].numel()))
