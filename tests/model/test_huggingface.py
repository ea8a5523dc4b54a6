"""Everything that a language model is asked is compared with one plain, uncached pass over whole rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lmaudit.errors import InputError, ModelError
from lmaudit.model.huggingface import Block, LanguageModel, _embedding_table
from lmaudit.model.load import load_model
from lmaudit.model.prefix import Prefix, PrefixStore
from lmaudit.model.scores import TokenScores
from lmaudit.testing.tiny import FAMILIES, save_tiny_model, tiny_model

LENGTH = 8  # of full rows: longer than the windows of the tiny models that have one
ALL = tuple(range(1, LENGTH))


# ── the oracle: one uncached pass, nothing shared, every logit ────────────────────────────────────────────


def embedding_scale(model: LanguageModel) -> float:
    """As the papers of the families say it; not read off the module."""
    return model.embeddings.shape[1] ** 0.5 if "gemma" in model.name else 1.0


@torch.no_grad()
def naive_logits(model: LanguageModel, rows: Tensor) -> Tensor:
    return model.module(input_ids=rows).logits.double()


@torch.no_grad()
def naive_scores(model: LanguageModel, rows: Tensor, reads: tuple[int, ...]) -> TokenScores:
    logits = naive_logits(model, rows)[:, [r - 1 for r in reads]]
    tokens = rows[:, list(reads), None]
    own = logits.gather(-1, tokens)[..., 0]
    others = logits.scatter(-1, tokens, -torch.inf).amax(-1)
    return TokenScores(own - logits.logsumexp(-1), own - others, logits.argmax(-1) == tokens[..., 0])


@torch.no_grad()
def naive_value(model: LanguageModel, inputs: Tensor, tokens: Tensor, reads: tuple[int, ...], weights: Tensor):
    """Σ_r weight_r · log p(token_r), with `inputs` (B, L, D) in units of rows of the embedding table."""
    logits = model.module(inputs_embeds=inputs * embedding_scale(model)).logits.double()
    logprobs = logits[:, [r - 1 for r in reads]].log_softmax(-1)
    return (logprobs.gather(-1, tokens[:, list(reads), None])[..., 0] * weights).sum(-1)


@torch.no_grad()
def naive_gradient(model: LanguageModel, row: Tensor, position: int, reads: tuple[int, ...], weights: Tensor) -> Tensor:
    """Central differences in every direction of the embedding of one token.

    Some layers of these families compute in single precision whatever the weights are, so the steps have to be large;
    two of them cancel the next order. Mamba bends more than the others and rounds less.
    """
    step = (1e-3 if "mamba" in model.name else 1e-2) / embedding_scale(model)
    plain = model.embeddings[row]
    nudges = torch.eye(plain.shape[1], dtype=plain.dtype) * step

    def value(nudge: Tensor) -> Tensor:
        inputs = plain.repeat(len(nudge), 1, 1)
        inputs[:, position] += nudge
        return naive_value(model, inputs, row.expand(len(nudge), -1), reads, weights)

    near, far = ((value(n * nudges) - value(-n * nudges)) / (2 * n * step) for n in (1, 2))
    return (4 * near - far) / 3


def rows_of(model: LanguageModel, n: int, *, length: int = LENGTH, seed: int = 0) -> Tensor:
    """Rows of usable tokens; two of every three begin alike, and the first ends with its own greedy completion."""
    random = torch.Generator().manual_seed(seed)
    usable = model.vocabulary.usable.nonzero()[:, 0]
    rows = usable[torch.randint(len(usable), (n, length), generator=random)]
    rows[1::3, : length // 2] = rows[::3, : length // 2][: len(rows[1::3])]
    for position in range(length // 2, length):
        rows[0, position] = naive_logits(model, rows[:1, :position])[0, -1].argmax()
    return rows


def assert_agree(found: TokenScores, expected: TokenScores) -> None:
    torch.testing.assert_close(found.logprob.double(), expected.logprob, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.margin.double(), expected.margin, atol=1e-4, rtol=1e-4)
    assert torch.equal(found.greedy, expected.greedy)


def close(found: Tensor, expected: Tensor) -> bool:
    size = expected.abs().max().clamp_min(1e-3)
    return bool(((found.double() - expected).abs().max() / size) < 5e-3)


# ── how likely ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reads", [ALL, (LENGTH - 2, LENGTH - 1), (1, 3, 4, LENGTH - 1), (2,)])
def test_scores_are_those_of_one_uncached_pass(tiny, reads):
    rows = rows_of(tiny, 6)
    expected = naive_scores(tiny, rows, reads)
    assert expected.greedy.any() == (max(reads) >= LENGTH // 2), "the oracle itself must see both outcomes"
    assert not expected.greedy.all()
    for split in range(LENGTH):
        assert_agree(tiny.score(Block(rows, split, reads)), expected)


def test_a_batch_gives_what_its_rows_give_alone(tiny):
    rows = rows_of(tiny, 5, seed=1)
    whole = tiny.score(Block(rows, 3, ALL))
    for i in range(len(rows)):
        assert_agree(whole.map(lambda t, i=i: t[i : i + 1].double() if t.is_floating_point() else t[i : i + 1]),
                     naive_scores(tiny, rows[i : i + 1], ALL))  # fmt: skip


def test_equal_rows_and_repeated_questions_give_equal_answers(tiny):
    rows = rows_of(tiny, 2, seed=2).repeat_interleave(2, 0)
    first, second = (tiny.score(Block(rows, 4, ALL)) for _ in range(2))
    assert torch.equal(first.logprob[::2], first.logprob[1::2])
    assert torch.equal(first.logprob, second.logprob)


def test_next_logprobs(tiny):
    rows = rows_of(tiny, 4, seed=3)
    for length in (1, 2, 5, LENGTH):
        prefixes = rows[:, :length]
        found = tiny.next_logprobs(prefixes)
        expected = naive_logits(tiny, prefixes)[:, -1].log_softmax(-1)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


# ── in which direction ────────────────────────────────────────────────────────────────────────────────────

WEIGHTS = (torch.ones(LENGTH - 1), torch.linspace(-1, 2, LENGTH - 1), torch.eye(LENGTH - 1)[-1])


@pytest.mark.parametrize("position", [0, 1, 3, LENGTH - 2])
def test_the_gradient_is_that_of_finite_differences(tiny, position):
    """In units of rows of the embedding table, also where the model scales them."""
    rows = rows_of(tiny, 2, seed=4)[1:]
    for weights in WEIGHTS:
        found = tiny.gradient(Block(rows, position, ALL), weights[None])
        assert found.shape == (1, tiny.embeddings.shape[1])
        assert found.dtype == torch.float32
        for row, slope in zip(rows, found, strict=True):
            # What stands before the token cannot depend on it, and which token is read there is not a direction.
            late = torch.where(torch.tensor(ALL) > position, weights, 0)
            expected = naive_gradient(tiny, row, position, ALL, late)
            assert expected.abs().max() > 1e-3
            assert close(slope, expected)


@pytest.mark.parametrize("start", [0, 2])
def test_the_gradients_of_several_tokens_are_those_of_finite_differences_and_of_each_alone(tiny, start):
    rows, weights, n_positions = rows_of(tiny, 2, seed=4), torch.stack(WEIGHTS[:2]), 3
    found = tiny.gradients(Block(rows, start, ALL), weights, n_positions)
    assert found.shape == (2, n_positions, tiny.embeddings.shape[1])
    for i, row in enumerate(rows):
        for j, position in enumerate(range(start, start + n_positions)):
            late = torch.where(torch.tensor(ALL) > position, weights[i], 0)
            assert close(found[i, j], naive_gradient(tiny, row, position, ALL, late))
            alone = tiny.gradient(Block(rows[i : i + 1], position, ALL), weights[i : i + 1])[0]
            assert close(found[i, j], alone.double())


def test_each_row_has_its_own_weights(tiny):
    rows = rows_of(tiny, 2, seed=4)[:1].repeat(2, 1)
    weights = torch.stack(WEIGHTS[:2])
    found = tiny.gradient(Block(rows, 2, ALL), weights)
    for slope, own in zip(found, weights, strict=True):
        assert close(slope, tiny.gradient(Block(rows[:1], 2, ALL), own[None])[0].double())


def test_the_last_output_token_has_no_gradient(tiny):
    rows = rows_of(tiny, 3)
    found = tiny.gradient(Block(rows, LENGTH - 1, ALL), torch.ones(3, len(ALL)))
    assert torch.equal(found, torch.zeros(3, tiny.embeddings.shape[1]))


def test_no_parameter_ever_gets_a_gradient(tiny):
    rows = rows_of(tiny, 2)
    tiny.gradient(Block(rows, 1, ALL), torch.ones(2, len(ALL)))
    soft = torch.nn.functional.one_hot(rows[:, 1:3], tiny.vocabulary.n_rows).float()
    tiny.relaxed(rows, soft, 1, ALL, torch.ones(2, len(ALL)))
    assert all(p.grad is None and not p.requires_grad for p in tiny.module.parameters())


# ── distributions instead of tokens ───────────────────────────────────────────────────────────────────────


def test_one_hot_distributions_are_tokens(tiny):
    rows = rows_of(tiny, 3, seed=5)
    soft = torch.nn.functional.one_hot(rows[:, 2:5], tiny.vocabulary.n_rows).float()
    weights = WEIGHTS[1].expand(3, -1)
    blank = rows.clone()
    blank[:, 2:5] = 0  # these are not to be read
    value, slope = tiny.relaxed(blank, soft, 2, ALL, weights)
    expected = (naive_scores(tiny, rows, ALL).logprob * weights).sum(1)
    torch.testing.assert_close(value.double(), expected, atol=1e-4, rtol=1e-4)
    assert slope.shape == soft.shape


@pytest.mark.parametrize("start", [0, 2])
def test_the_gradient_of_distributions_is_that_of_finite_differences(tiny, start):
    n_soft, n_tokens, step = 3, tiny.vocabulary.n_rows, 1e-4
    rows = rows_of(tiny, 1, seed=6)
    random = torch.Generator().manual_seed(7)
    soft = torch.randn(1, n_soft, n_tokens, generator=random, dtype=torch.float64).mul(2).softmax(-1)
    directions = torch.randn(12, n_soft, n_tokens, generator=random, dtype=torch.float64)
    directions[:n_soft] = 0
    for i in range(n_soft):  # and single coordinates
        directions[i, i, int(rows[0, start + i])] = 1
    weights = WEIGHTS[1]

    @torch.no_grad()
    def naive(distributions: Tensor) -> Tensor:
        inputs = tiny.embeddings[rows].repeat(len(distributions), 1, 1)
        inputs[:, start : start + n_soft] = distributions @ tiny.embeddings
        targets = torch.nn.functional.one_hot(rows, n_tokens).double().repeat(len(distributions), 1, 1)
        targets[:, start : start + n_soft] = distributions
        logits = tiny.module(inputs_embeds=inputs * embedding_scale(tiny)).logits.double()
        return ((logits[:, :-1].log_softmax(-1) * targets[:, 1:]).sum(-1) * weights).sum(-1)

    value, slope = tiny.relaxed(rows, soft.float(), start, ALL, weights[None])
    torch.testing.assert_close(value.double(), naive(soft), atol=1e-4, rtol=1e-4)
    near, far = (
        (naive(soft + n * step * directions) - naive(soft - n * step * directions)) / (2 * n * step) for n in (1, 2)
    )
    expected = (4 * near - far) / 3
    assert close((slope.double() * directions).sum((1, 2)), expected)


# ── what comes next ───────────────────────────────────────────────────────────────────────────────────────


def naive_completion(model: LanguageModel, ids: list[int], n_tokens: int) -> list[int]:
    for _ in range(n_tokens):
        ids = [*ids, int(naive_logits(model, torch.tensor([ids]))[0, -1].argmax())]
    return ids[-n_tokens:]


def test_generation_is_repeated_argmax(tiny):
    completions = set()
    for row in rows_of(tiny, 3, seed=8)[:, :4].tolist():
        completion = tiny.generate(row, 5)
        assert completion == naive_completion(tiny, row, 5)
        completions.add(tuple(completion))
    assert len(completions) > 1, "random weights whose completions do not vary test nothing"


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_generation_ignores_the_settings_that_come_with_a_model(tmp_path, family):
    """Neither sampling nor a repetition penalty nor an end token has a place in f(x)."""
    model = tiny_model(family)
    prompt = rows_of(model, 1, seed=9)[0, :4].tolist()
    expected = naive_completion(model, prompt, 6)
    folder = save_tiny_model(tmp_path, family)
    shipped = {"do_sample": True, "temperature": 3.0, "repetition_penalty": 9.0, "no_repeat_ngram_size": 1}
    ends = {"eos_token_id": expected[:3], "max_length": 5, "forced_eos_token_id": 3, "suppress_tokens": expected}
    (folder / "generation_config.json").write_text(json.dumps({**shipped, **ends}))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": expected[0]}))
    loaded = load_model(str(folder))
    assert [loaded.generate(prompt, 6) for _ in range(2)] == [expected] * 2


def test_a_model_without_pad_token_is_scored_in_batches_and_generates():
    model = tiny_model("gpt2")
    assert model.vocabulary.tokenizer.pad_token is None
    rows = rows_of(model, 4)
    assert_agree(model.score(Block(rows, 2, ALL)), naive_scores(model, rows, ALL))
    assert len(model.generate(rows[0].tolist(), 3)) == 3


# ── what is computed ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def watched(model: LanguageModel) -> Iterator[SimpleNamespace]:
    """Shapes (B, T) of what is fed and of where logits are computed, pass by pass."""
    seen = SimpleNamespace(fed=[], logits=[])

    def before(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        inputs = kwargs.get("input_ids", kwargs.get("inputs_embeds"))
        seen.fed.append(tuple(inputs.shape[:2]))

    def after(_module: Any, args: tuple[Tensor, ...], _output: Any) -> None:
        seen.logits.append(tuple(args[0].shape[:2]))

    hooks = [
        model.module.register_forward_pre_hook(before, with_kwargs=True),
        model.module.get_output_embeddings().register_forward_hook(after),
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("split", [0, 3])
@pytest.mark.parametrize("family", sorted(f for f in FAMILIES if FAMILIES[f].shares_prefixes))
def test_scoring_leaves_the_next_prefix_without_a_pass_of_its_own(family, split):
    model, fresh = tiny_model(family, width=16), tiny_model(family, width=16)
    rows = rows_of(model, 4)
    rows[:, :split] = rows[0, :split]
    model.score(Block(rows, split, (LENGTH - 2, LENGTH - 1)))
    chosen = rows[2].repeat(5, 1)
    chosen[:, split + 1] = rows_of(model, 5)[:, 0]
    block, weights = Block(chosen, split + 1, (LENGTH - 2, LENGTH - 1)), torch.ones(5, 2)
    with watched(model) as seen:
        slope = model.gradient(block, weights)
    assert seen.fed == [(5, LENGTH - 1 - (split + 1))]
    torch.testing.assert_close(slope, fresh.gradient(block, weights), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_logits_are_computed_where_they_are_read_and_the_last_token_is_not_fed(family):
    model = tiny_model(family, width=16)
    rows = rows_of(model, 4)
    rows[:, :3] = rows[0, :3]
    block = Block(rows, 3, (LENGTH - 2, LENGTH - 1))
    with watched(model) as seen:
        model.score(block)
    if model.shares_prefixes:
        assert seen.fed == [(1, 3), (4, LENGTH - 1 - 3)]
        assert seen.logits == [(1, 0), (4, 2)]
    else:
        assert seen.fed == [(4, LENGTH - 1)]
        assert seen.logits == [(4, 2)]
    with watched(model) as seen:
        model.gradient(block, torch.ones(4, 2))
    assert seen.fed == [(4, LENGTH - 1 - (3 if model.shares_prefixes else 0))]
    assert seen.logits == [(4, 2)]
    with watched(model) as seen:
        model.gradient(Block(rows, LENGTH - 1, (LENGTH - 1,)), torch.ones(4, 1))
    assert seen.fed == []


def test_the_next_position_extends_the_prefix_by_one_token():
    model = tiny_model("gpt2", width=16)
    rows = rows_of(model, 4)
    rows[:, :4] = rows[0, :4]
    with watched(model) as seen:
        model.next_logprobs(rows[:1, :3])
        model.score(Block(rows, 3, (LENGTH - 1,)))
        model.next_logprobs(rows[:1, :4])
    assert seen.fed == [(1, 3), (4, LENGTH - 4), (1, 1)]


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────

Question = Callable[[LanguageModel], tuple[Tensor, ...]]


def ask_scores(model: LanguageModel) -> tuple[Tensor, ...]:
    found = model.score(Block(rows_of(model, 7), 3, ALL))
    return found.logprob, found.margin, found.greedy


def ask_gradient(model: LanguageModel) -> tuple[Tensor, ...]:
    weights = torch.randn(7, len(ALL), generator=torch.Generator().manual_seed(0))
    return (model.gradient(Block(rows_of(model, 7), 2, ALL), weights),)


def ask_relaxed(model: LanguageModel) -> tuple[Tensor, ...]:
    rows, random = rows_of(model, 7), torch.Generator().manual_seed(0)
    soft = torch.randn(7, 2, model.vocabulary.n_rows, generator=random).softmax(-1)
    return model.relaxed(rows, soft, 1, ALL, torch.randn(7, len(ALL), generator=random))


QUESTIONS = pytest.mark.parametrize("ask", [ask_scores, ask_gradient, ask_relaxed])


def assert_same(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@QUESTIONS
@pytest.mark.parametrize("max_rows", [1, 2, 3])
def test_pieces_give_what_the_whole_gives(ask: Question, max_rows):
    for family in ("gpt2", "gemma3"):
        model = tiny_model(family, width=16, dtype=torch.float64)
        expected = ask(model)
        model.max_rows = max_rows
        assert_same(ask(model), expected)


@contextmanager
def memory_for(model: LanguageModel, n_rows: int) -> Iterator[None]:
    """A machine on which passes of more than `n_rows` rows run out of memory."""

    def check(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        if len(kwargs.get("input_ids", kwargs.get("inputs_embeds"))) > n_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook = model.module.register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@QUESTIONS
@pytest.mark.parametrize("fits", [1, 5])
def test_out_of_memory_halves_the_rows_and_goes_on(ask: Question, fits):
    model = tiny_model("llama", width=16, dtype=torch.float64)
    expected = ask(model)
    model._prefixes.clear()
    rows_of_7 = rows_of(model, 7)
    with memory_for(model, fits), pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "rows_of", lambda *_: rows_of_7)
        assert_same(ask(model), expected)
    assert model.max_rows <= max(fits, 1)
    assert model.max_rows >= (fits + 1) // 2, "no smaller than needed"


@QUESTIONS
def test_a_model_that_does_not_fit_with_one_row_is_an_error(ask: Question):
    model = tiny_model("llama", width=16)
    rows_of_7 = rows_of(model, 7)
    with memory_for(model, 0), pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "rows_of", lambda *_: rows_of_7)
        with pytest.raises(ModelError, match=r"does not fit into memory even one row at a time.*smaller model"):
            ask(model)


def test_other_failures_are_not_taken_for_lack_of_memory():
    model = tiny_model("llama", width=16)
    model.module.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("shapes differ")))
    with pytest.raises(RuntimeError, match="shapes differ"):
        model.score(Block(torch.ones(2, LENGTH, dtype=torch.long), 0, ALL))


def entry(n_floats: int) -> Prefix:
    return Prefix([(torch.zeros(n_floats), torch.zeros(0))], None, None)


def test_the_store_forgets_what_was_not_used_for_longest():
    store = PrefixStore(capacity_bytes=4 * 25)
    for i in range(2):
        store.put((i,), entry(10))
    assert store.get((0,), scored=False) is not None  # used: now 1 is the older one
    store.put((2,), entry(10))
    assert [store.get((i,), scored=False) is not None for i in range(3)] == [True, False, True]


def test_the_store_stays_within_its_bound():
    store = PrefixStore(capacity_bytes=400)
    for i, size in enumerate([10, 50, 20, 20, 90, 5, 5, 5, 80]):
        store.put((i,), entry(size))
        kept = [found for j in range(i + 1) if (found := store._entries.get((j,)))]
        assert sum(found.n_bytes for found in kept) == store._n_bytes <= 400


def test_replacing_an_entry_counts_it_once_and_one_that_is_too_large_is_kept_alone():
    store = PrefixStore(capacity_bytes=100)
    store.put((0,), entry(10))
    store.put((0,), entry(12))
    assert store._n_bytes == 48
    store.put((1,), entry(1000))
    assert store.get((0,), scored=False) is None
    assert store.get((1,), scored=False) is not None
    store.clear()
    assert store.get((1,), scored=False) is None
    assert store._n_bytes == 0


def test_an_entry_without_distribution_does_not_answer_a_question_for_one():
    store = PrefixStore(100)
    store.put((1, 2), entry(1))
    assert store.get((1, 2), scored=True) is None
    assert store.longest((1, 2, 3, 4), scored=False) == 2
    assert store.longest((1, 2, 3, 4), scored=True) == 0
    assert store.longest((1, 2), scored=False) == 0


def test_results_do_not_depend_on_what_the_store_has_room_for(tiny):
    rows, reads = rows_of(tiny, 6, seed=10), ALL
    expected = naive_scores(tiny, rows, reads)
    kept = tiny._prefixes
    try:
        for capacity in (1, 3_000):
            tiny._prefixes = PrefixStore(capacity)
            for split in (3, 1, 5, 4):
                assert_agree(tiny.score(Block(rows, split, reads)), expected)
    finally:
        tiny._prefixes = kept


def test_stored_prefixes_hold_no_memory_but_their_own():
    """Otherwise one of a batch keeps all of the batch alive, and the bound in bytes means nothing."""
    model = tiny_model("gpt2", width=16)
    model.score(Block(rows_of(model, 6), 3, ALL))
    stored = list(model._prefixes._entries.values())
    assert len(stored) > 1
    for tensor in itertools.chain.from_iterable(pair for prefix in stored for pair in prefix.layers):
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


# ── numbers that are none ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_row_that_overflows_is_nan_and_spoils_no_other(bad):
    model = tiny_model("llama", width=16)
    rows = rows_of(model, 4)
    poison = 150
    rows[rows == poison] = poison + 1
    rows[2, 3] = poison
    clean = model.score(Block(rows, 2, ALL))
    slope = model.gradient(Block(rows, 2, ALL), torch.ones(4, len(ALL)))
    model.module.get_input_embeddings().weight.data[poison] = bad
    model._prefixes.clear()
    others = [0, 1, 3]
    for split in (0, 2, 3, 5):
        scores = model.score(Block(rows, split, ALL))
        assert_same((scores.logprob[others],), (clean.logprob[others],))
        assert scores.logprob[2, 3:].isnan().all()  # reads 4 … : behind the bad token
        assert not scores.greedy[2, 3:].any()
    found = model.gradient(Block(rows, 2, ALL), torch.ones(4, len(ALL)))
    assert found[2].isnan().all()
    assert_same((found[others],), (slope[others],))


# ── what it is ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_longer_than_the_context_window_is_refused_with_both_lengths():
    model = tiny_model("llama")
    model.check_length(128)
    with pytest.raises(InputError, match=r"129 tokens.*128; shorten"):
        model.check_length(129)
    tiny_model("mamba").check_length(10**6)  # no window


def test_the_fingerprint_is_of_the_weights():
    one, same, other = (tiny_model("mamba", seed=seed, width=16) for seed in (0, 0, 1))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert len(one.fingerprint()) == 16


class Shifted(nn.Embedding):
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + 1


def test_an_embedding_that_is_not_a_scaled_table_is_refused():
    with pytest.raises(ModelError, match="not a table of rows times one number"):
        _embedding_table(Shifted(20, 8))


def test_the_scale_of_the_embedding_is_found(tiny):
    assert _embedding_table(tiny.module.get_input_embeddings())[1] == pytest.approx(embedding_scale(tiny), rel=1e-3)


def test_early_and_late_reads():
    block = Block(torch.zeros(3, 6, dtype=torch.long), 2, (1, 2, 4, 5))
    assert (block.early, block.late, block.n_fed) == ((1, 2), (4, 5), 5)
    assert block.part(slice(1, 3)).rows.shape == (2, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_precisions_agree_as_far_as_they_go(dtype):
    exact = tiny_model("qwen2", width=16, dtype=torch.float64)
    rough = tiny_model("qwen2", width=16, dtype=dtype)
    rows = rows_of(exact, 4)
    found, expected = rough.score(Block(rows, 3, ALL)), exact.score(Block(rows, 3, ALL))
    tolerance = 1e-3 if dtype == torch.float32 else 0.5
    torch.testing.assert_close(found.logprob, expected.logprob, atol=tolerance, rtol=tolerance)
    weights = torch.ones(4, len(ALL))
    slope, direction = (model.gradient(Block(rows, 3, ALL), weights) for model in (rough, exact))
    assert torch.cosine_similarity(slope, direction).min() > (0.9999 if dtype == torch.float32 else 0.97)


@pytest.mark.real
def test_the_embedded_model_agrees_with_one_uncached_pass(real_model):
    rows = rows_of(real_model, 3, length=LENGTH)
    expected = naive_scores(real_model, rows, ALL)
    for split in (0, 3):
        found = real_model.score(Block(rows, split, ALL))
        torch.testing.assert_close(found.logprob.double(), expected.logprob, atol=1e-3, rtol=1e-3)
    prompt = rows[0, : LENGTH // 2].tolist()
    assert real_model.generate(prompt, 3) == naive_completion(real_model, prompt, 3)
