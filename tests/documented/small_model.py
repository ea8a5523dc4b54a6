"""A language model small enough to search in seconds, whose tokens are words that the pages talk about.

It is made, not trained: after each token it prefers one other token, so that what the pages search for is there to be
found (words after words, names after names), and its layer adds a little noise, so that the context matters too.
"""

from itertools import pairwise

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMES = (" Ed Markey", " Rick Scott", " Barack Obama", " United States", " Elizabeth Warren", " Paris", " of course")
_WORDS = {
    "pets": "cat cats dog dogs hamster kitten puppy",
    "toxic": "stupid idiot idiots moron loser dumb pathetic",  # mild, and tox-block is sure of them
    "english": "the through because which would should there where friend always nothing something house with and",
    "french": "bonjour toujours maintenant fromage beaucoup aussi quelque pourquoi avec dans cette",
    "german": "nicht zusammen Geschichte vielleicht immer heute zwischen durch einfach",
}
_AFTER = {"pets": "toxic", "toxic": "toxic", "english": "english", "french": "english", "german": "english"}
_WIDTH, _PREFERENCE, _OWN, _NOISE = 64, 0.16, 0.5, 0.3


def save_small_model(folder, *, seed=0):
    """Write model and tokenizer into `folder` and return that; another seed prefers other tokens in part."""
    tokenizer = _tokenizer()
    sizes = {"n_layer": 1, "n_embd": _WIDTH, "n_head": 4, "n_positions": 2048, "vocab_size": len(tokenizer)}
    config = AutoConfig.for_model("gpt2", **sizes, bos_token_id=0, eos_token_id=2, tie_word_embeddings=False)
    random = torch.Generator().manual_seed(seed)
    module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for _, weight in sorted(module.named_parameters()):
            if weight.dim() == 2:
                weight.copy_(_NOISE / _WIDTH**0.5 * torch.randn(weight.shape, generator=random))
        table, head = module.transformer.wte.weight, module.lm_head.weight
        after = _preferred(tokenizer, random)
        preferred, which = after.unique(return_inverse=True)
        axes = torch.linalg.qr(torch.randn(_WIDTH, _WIDTH, generator=random))[0] * _WIDTH**0.5
        table.copy_(axes[which] + _OWN * torch.randn(table.shape, generator=random))
        head.copy_(_NOISE * head).index_copy_(0, preferred, _PREFERENCE * axes[: len(preferred)])
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _preferred(tokenizer, random):
    """``(V,)`` int64: which token comes after each."""
    words = {group: [tokenizer.encode(f" {word}")[0] for word in line.split()] for group, line in _WORDS.items()}
    names = [tokenizer.encode(name) for name in NAMES]
    wanted = [*(name[0] for name in names), *(group[0] for group in words.values())]
    after = torch.tensor(wanted)[torch.randint(len(wanted), (len(tokenizer),), generator=random)]
    for group, tokens in words.items():
        after[tokens] = words[_AFTER[group]][0]  # one for all of them: searches change one token at a time
    for name in names:
        for token, following in pairwise(name):
            after[token] = following
    return after


def _tokenizer():
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    texts = [*NAMES, " She said", " is a", *(f" {word}" for line in _WORDS.values() for word in line.split())]
    trainer = BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        show_progress=False,
        special_tokens=[AddedToken(text, normalized=False, special=True) for text in _SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    backend.train_from_iterator(texts * 2, trainer)
    roles = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": _TEMPLATE}
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **roles)
