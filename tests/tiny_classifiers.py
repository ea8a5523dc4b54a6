"""Tiny random text classifiers of several families, saved with a tokenizer as their authors would."""

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedTokenizerFast

from lmaudit.testing.tiny import tiny_tokenizer

LABELS = ("neutral", "toxic", "other insult")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'"
_SPECIAL = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "roberta": ("</s>", "<pad>", "<unk>", "<s>")}
_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_SETTINGS = {
    "bert": {**_SMALL, "max_position_embeddings": 40},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40},
    "roberta": {**_SMALL, "max_position_embeddings": 42, "pad_token_id": 1, "type_vocab_size": 1},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40, "bos_token_id": 0, "eos_token_id": 0},
    "llama": {**_SMALL, "num_key_value_heads": 2, "max_position_embeddings": 40},
}


def save_tiny_classifier(folder, family, *, labels=LABELS, seed=0, change=None, **settings):
    """Write a classifier into `folder` and return that; `change` may alter the module before."""
    tokenizer = _tokenizer(family)
    names = {"id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}
    fields = {**_SETTINGS[family], "vocab_size": len(tokenizer), "num_labels": len(labels), **names, **settings}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(family, **fields))
        for weight in module.parameters():  # what the library draws hardly tells one text from another
            if weight.dim() == 2:
                weight.data.add_(0.3 * torch.randn_like(weight))
    if change is not None:
        change(module)
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(family):
    if family in ("gpt2", "llama"):
        return tiny_tokenizer("bytes" if family == "gpt2" else "spaces")
    special = _SPECIAL["roberta" if family == "roberta" else "bert"]
    first, last = (special[3], special[0]) if family == "roberta" else special[2:]
    pad, unknown = (special[1], special[2]) if family == "roberta" else special[:2]
    tokens = [*special, *_LETTERS, *(f"##{letter}" for letter in _LETTERS), "the", "you", "##ing"]
    backend = Tokenizer(WordPiece({token: i for i, token in enumerate(tokens)}, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(token, tokens.index(token)) for token in (first, last)]
    )
    # It gives token types to every family, as do many that are published, whether or not the model takes them.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, unk_token=unknown, cls_token=first, sep_token=last
    )
