"""A bank knows log p of the first output token for every prompt in it, as the model itself says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from lmaudit.frame import Frame
from lmaudit.model.huggingface import Block
from lmaudit.search import bank as bank_module
from lmaudit.search.bank import Worth, build
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Recall, Recollection
from lmaudit.testing.contract import problem
from lmaudit.testing.tiny import FAMILIES, tiny_model
from small_banks import BUDGET, frame_of


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def said_by_model(model, frame, prompts, token):
    """log p of `token` behind each prompt, by the question that searches ask."""
    frame = Frame(frame.before, frame.n_prompt, frame.after, 1)
    rows = frame.expand(torch.cat((prompts, torch.full_like(prompts[:, :1], token)), dim=1))
    return model.score(Block(rows, 0, (rows.shape[1] - 1,)))


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_are_those_of_the_model(family):
    model = tiny_model(family, seed=1)
    frame = frame_of(model)
    bank = build(model, frame, model.vocabulary.usable, BUDGET)
    for token in (5, 40):
        scores = said_by_model(model, frame, bank.prompts, token)
        assert torch.allclose(bank.logprobs(model, token), scores.logprob[:, 0], atol=2e-3)
        assert ((bank.greedy == token) == scores.greedy[:, 0]).float().mean() > 0.99  # ties may be cut otherwise


@pytest.mark.parametrize("setting", [{"prefix": "She said"}, {"suffix": " so"}, {"chat": True}])
def test_what_stands_around_the_prompts_is_read(model, setting):
    frame = frame_of(model, **setting)
    bank = build(model, frame, model.vocabulary.usable, BUDGET)
    scores = said_by_model(model, frame, bank.prompts, 7)
    assert torch.allclose(bank.logprobs(model, 7), scores.logprob[:, 0], atol=2e-3)


@pytest.mark.parametrize("n_prompt", [1, 2, 3, 6])
@pytest.mark.parametrize("budget", [1, 300, 3_000])
def test_prompts_are_different_allowed_and_near_the_budget(model, n_prompt, budget):
    allowed = model.vocabulary.usable.clone()
    allowed[::3] = False
    bank = build(model, frame_of(model, n_prompt), allowed, budget)
    assert allowed[bank.prompts].all()
    assert bank.prompts.shape == (len(bank), n_prompt)
    assert len(bank)
    if n_prompt == 1:
        assert len(bank) == min(budget, int(allowed.sum()))
        assert bank.n_tokens == len(bank)
    if budget == 3_000 and n_prompt > 1:
        assert 0.4 * budget < bank.n_tokens <= budget


def test_a_suffix_is_paid_for_behind_every_last_token(model):
    frame = frame_of(model, 1, suffix=" so it goes")
    bank = build(model, frame, model.vocabulary.usable, 300)
    assert len(frame.after) > 2
    assert len(bank) == 300 // (1 + len(frame.after))
    assert bank.n_tokens <= 300


def test_beginnings_share_a_pass_and_no_prompt_comes_twice(model):
    bank = build(model, frame_of(model), model.vocabulary.usable, 3_000)
    prompts = list(map(tuple, bank.prompts.tolist()))
    assert len({prompt[:-1] for prompt in prompts}) < len(bank) / 10
    assert len(set(prompts)) == len(prompts)


def test_one_beginning_in_five_gets_what_is_left_of_the_budget(model):
    bank = build(model, frame_of(model), model.vocabulary.usable, 3_000)
    sizes = Counter(prompt[:-1] for prompt in map(tuple, bank.prompts.tolist()))
    usual = min(sizes.values())
    more = [beginning for beginning, n in sizes.items() if n > usual]
    assert usual == 16
    assert len(more) == int(0.2 * len(sizes))
    assert all(sizes[beginning] > 64 for beginning in more)


def test_those_are_beginnings_that_lead_where_none_before_led(model):
    """Counted anew from what the bank holds: the first 16 prompts of every beginning, in their order."""
    bank = build(model, frame_of(model), model.vocabulary.usable, 3_000)
    prompts = list(map(tuple, bank.prompts.tolist()))
    sizes = Counter(prompt[:-1] for prompt in prompts)
    n = 16 * len(sizes)
    logprobs = torch.stack([bank.logprobs(model, token)[:n] for token in range(len(model.embeddings))], dim=1)
    words = [i for i, text in enumerate(model.vocabulary.strings) if text[:1] == " " and text[1:].isalpha()]
    best, gained, done = torch.full((len(words),), -9.0), Counter(), 0
    for end in [*range(1024, n, 1024), n]:  # so many are looked at together
        likeliest, by = logprobs[done:end, words].max(0)
        for row, gain in zip(by.tolist(), (likeliest - best).clamp(min=0).tolist(), strict=True):
            gained[prompts[done + row][:-1]] += gain * end
        best, done = torch.maximum(best, likeliest), end
    most = {beginning for beginning, _ in gained.most_common(int(0.2 * len(sizes)))}
    more = {beginning for beginning, size in sizes.items() if size > 16}
    assert len(most & more) >= 0.8 * len(more)  # equal logits may be ranked otherwise


def test_last_tokens_of_natural_prompts_are_likelier(model, monkeypatch):
    """Before worth has a say: behind all beginnings the first draws follow the model more closely."""
    monkeypatch.setattr(bank_module, "_SHARPENED", 0)
    monkeypatch.setattr(bank_module, "_N_LAST", 3)
    said = []
    for natural in (False, True):
        prompts = build(model, frame_of(model), model.vocabulary.usable, 3_000, natural=natural).prompts
        logprobs = model.next_logprobs(prompts[:, :-1])
        said.append(float(logprobs.gather(1, prompts[:, -1:]).mean()))
    assert said[1] > said[0] + 0.05


class TestWorth:
    def worth(self) -> Worth:
        return Worth.for_outputs(torch.tensor([True, True, True, False]))

    def test_is_what_a_prompt_adds_to_the_likeliest_so_far(self):
        worth = self.worth()
        first = torch.tensor([[-2.0, -20.0, -4.0, -1.0], [-3.0, -8.0, -20.0, -0.1]])
        assert worth.add(torch.tensor([1, 2]), first).tolist() == [(9 - 2) + (9 - 4), 9 - 8]
        assert worth.add(torch.tensor([2]), torch.tensor([[-1.5, -10.0, -4.0, 0.0]])).tolist() == [0.5]
        assert worth.best.tolist() == [-1.5, -8.0, -4.0, 0.0]

    def test_last_tokens_are_worth_what_their_prompts_gained_and_a_mean_one_more(self):
        worth = self.worth()
        assert worth.of_last_tokens.tolist() == [1, 1, 1, 1]
        worth.add(torch.tensor([1]), torch.tensor([[-3.0, -20.0, -20.0, -1.0]]))  # 6
        worth.add(torch.tensor([2, 2]), torch.tensor([[-4.0, -20.0, -20.0, -1.0]] * 2))  # nothing
        mean = 6 / 3
        assert worth.of_last_tokens.tolist() == [1, (6 + mean) / 2 / mean, pytest.approx(1 / 3), 1]

    def test_where_the_model_overflows_nothing_is_gained(self):
        worth = self.worth()
        gains = worth.add(torch.tensor([0, 1]), torch.tensor([[torch.nan] * 4, [-5.0, -9.0, -9.0, -9.0]]))
        assert gains.tolist() == [0, 4]


def test_the_same_is_built_again_and_another_seed_differs(model):
    one, two, other = (build(model, frame_of(model), model.vocabulary.usable, BUDGET, seed) for seed in (0, 0, 1))
    assert torch.equal(one.prompts, two.prompts)
    assert torch.equal(one.states, two.states)
    assert not torch.equal(one.prompts, other.prompts)


def test_building_leaves_the_random_numbers_of_others_alone(model):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    build(model, frame_of(model), model.vocabulary.usable, BUDGET)
    assert torch.equal(torch.rand(3), expected)


def test_best_are_ranked_and_of_allowed_tokens(model):
    bank = build(model, frame_of(model), model.vocabulary.usable, BUDGET)
    allowed = model.vocabulary.usable.clone()
    allowed[bank.prompts[0]] = False
    places, logprobs = bank.best(model, 9, allowed)
    prompts, says = bank.prompts[places], bank.greedy[places] == 9
    assert 0 < len(prompts) < len(bank)
    assert allowed[prompts].all()
    assert (logprobs.diff() <= 0).all()
    assert torch.equal(says, said_by_model(model, frame_of(model), prompts, 9).greedy[:, 0])


def test_a_search_recalls_rows_with_its_output(model):
    cat = problem(model, "cat")
    (answer,) = Evaluator(model).evaluate([(cat, Recall(3, BUDGET))])
    assert isinstance(answer, Recollection)
    assert (answer.rows[:, 3:] == cat.space.output).all()
    assert cat.space.allowed[answer.rows[:, :3]].all()
    assert (answer.logprobs.diff() <= 0).all()


def test_targets_share_one_bank_whatever_their_overlap_forbids(model):
    evaluator = Evaluator(model)
    evaluator.evaluate([(problem(model, output), Recall(3, BUDGET)) for output in ("cat", " mat", " Donald")])
    assert evaluator.banks.n_built == 1


def test_a_model_without_a_plain_output_layer_is_searched_without(model, monkeypatch):
    monkeypatch.setattr(model.module, "get_output_embeddings", lambda: None)
    (answer,) = Evaluator(model).evaluate([(problem(model, "cat"), Recall(3, BUDGET))])
    assert isinstance(answer, Recollection)
    assert answer.rows.shape == (0, 4)


def test_prompts_at_which_the_model_overflows_are_left_out():
    model = tiny_model("llama", seed=1)
    with torch.no_grad():
        model.module.get_input_embeddings().weight[9] = float("nan")
    bank = build(model, frame_of(model), model.vocabulary.usable, 3_000)
    assert bank.n_tokens > 0.8 * 3_000, "a beginning that overflows takes no other with it"
    assert len(bank) > 0.7 * bank.n_tokens
    assert not (bank.prompts == 9).any()
    assert bank.logprobs(model, 7).isfinite().all()


def test_texts_fit_into_the_context_window():
    small = tiny_model("gpt2", seed=1)
    n_prompt = small.context_window - 3
    bank = build(small, frame_of(small, n_prompt), small.vocabulary.usable, 1)
    assert bank.prompts.shape[1] == n_prompt
