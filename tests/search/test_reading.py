"""How likely prompts are as text: what stands before them, what is counted, and what it costs."""

import pytest
import torch

from lmaudit.search.banks import Banks
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Read, Reading, Recall, Recollection
from lmaudit.search.reading import n_beginnings, read, read_all
from lmaudit.testing.contract import problem
from lmaudit.testing.tiny import tiny_model

AROUND = {
    "plain": {},
    "prefix and suffix": {"prefix": "She said", "suffix": " is"},
    "chat": {"chat": True},
}
PROMPTS = torch.tensor([[5, 9, 40], [5, 9, 41], [5, 11, 40], [40, 9, 9]])


@pytest.fixture(scope="module", params=["qwen2", "llama", "gpt2"])
def model(request):
    return tiny_model(request.param, seed=1)


def settings(model, around):
    if around == "chat" and model.vocabulary.tokenizer.chat_template is None:
        pytest.skip("this tiny model has no chat template")
    return AROUND[around]


def expected(model, frame, prompts):
    """Token by token, each by a pass of its own."""
    before = frame.before or model.vocabulary.separator
    values = []
    for prompt in prompts.tolist():
        logprobs = []
        for i in range(0 if frame.before else 1, len(prompt)):
            if not before and not i:
                continue
            ids = torch.tensor([[*before, *prompt[:i]]])
            said = model.module(input_ids=ids, use_cache=False).logits[0, -1].double().log_softmax(-1)
            logprobs.append(float(said[prompt[i]]))
        values.append(sum(logprobs) / len(logprobs) if logprobs else 0.0)
    return torch.tensor(values)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_a_prompt_is_read_behind_what_stands_there_or_behind_the_end_of_another_text(model, around, m):
    frame = problem(model, "cat", prompt_length=m, **settings(model, around)).objective.frame
    prompts = PROMPTS[:, :m]
    wanted = expected(model, frame, prompts)
    assert torch.allclose(read(model, frame, prompts), wanted, atol=1e-4)
    of_all, n_tokens = read_all(model, frame, prompts)
    assert torch.allclose(of_all, wanted, atol=1e-4)
    n_different = len(set(map(tuple, prompts[:, :-1].tolist())))
    n_fed = len(frame.before or model.vocabulary.separator) + m - 1
    assert n_tokens == (n_different * n_fed if m > 1 or frame.before else 0)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_beginnings_that_rows_share_change_nothing(model, position):
    frame = problem(model, "cat").objective.frame
    prompts = PROMPTS[:1].repeat(4, 1)
    prompts[:, position] = torch.tensor([7, 8, 9, 10])
    assert torch.allclose(read(model, frame, prompts, position), expected(model, frame, prompts), atol=1e-4)


def test_without_anything_in_front_the_first_token_is_all_the_context_there_is(model, monkeypatch):
    monkeypatch.setattr(model.vocabulary, "separator", ())
    frame = problem(model, "cat").objective.frame
    assert torch.allclose(read(model, frame, PROMPTS), expected(model, frame, PROMPTS), atol=1e-4)
    assert torch.allclose(read_all(model, frame, PROMPTS)[0], expected(model, frame, PROMPTS), atol=1e-4)
    assert (read(model, frame, PROMPTS[:, :1]) == 0).all() or frame.before


def test_queries_are_answered_together_as_alone(model):
    asked = problem(model, "cat")
    rows = torch.cat((PROMPTS, asked.space.output.expand(4, -1)), dim=1)
    evaluator = Evaluator(model)
    together = evaluator.evaluate([(asked, Read(rows[:3], 0)), (asked, Read(rows[1:], 0))])
    for answer, part in zip(together, (PROMPTS[:3], PROMPTS[1:]), strict=True):
        assert isinstance(answer, Reading)
        assert torch.allclose(answer.naturalness, expected(model, asked.objective.frame, part), atol=1e-4)


def test_what_reading_costs():
    """Rows are fed but for their last token; where no other query reads them, what they begin with is fed too."""
    model = tiny_model("qwen2", seed=1)
    evaluator = Evaluator(model)
    plain, chat = problem(model, "cat"), problem(model, "cat", chat=True)
    rows = torch.cat((PROMPTS, plain.space.output.expand(4, -1)), dim=1)
    assert [evaluator.cost(plain, Read(rows, i)) for i in range(3)] == [1 + 4 * 2, 2 + 4 * 1, 3]
    assert [evaluator.cost(chat, Read(rows, i)) for i in range(3)] == [4 * 2, 4 * 1, 0]


def test_beginnings_are_counted_once():
    assert n_beginnings(PROMPTS) == 2 + 3 + 4
    assert n_beginnings(PROMPTS[:, :0]) == 0


def test_a_prompt_at_which_the_model_overflows_is_not_natural():
    model = tiny_model("qwen2", seed=1)
    asked = problem(model, "cat")
    model.embeddings[5] = torch.inf
    rows = torch.cat((PROMPTS, asked.space.output.expand(4, -1)), dim=1)
    (answer,) = Evaluator(model).evaluate([(asked, Read(rows, 0))])
    assert isinstance(answer, Reading)
    assert answer.naturalness.isneginf().tolist() == [True, True, True, False]


def test_no_prompts_are_read_for_nothing(model):
    frame = problem(model, "cat", prefix="She said").objective.frame
    of_all, n_tokens = read_all(model, frame, PROMPTS[:0])
    assert (len(of_all), n_tokens) == (0, 0)


def test_what_is_recalled_says_how_natural_it_is_when_asked():
    model = tiny_model("qwen2", seed=1)
    asked = problem(model, "cat")
    banks = Banks(model)
    evaluator = Evaluator(model, banks)
    (plain,) = evaluator.evaluate([(asked, Recall(3, 900))])
    for _ in range(2):
        (natural,) = evaluator.evaluate([(asked, Recall(3, 900, natural=True))])
    assert isinstance(plain, Recollection)
    assert isinstance(natural, Recollection)
    assert (plain.naturalness == 0).all()
    assert torch.allclose(natural.naturalness, read(model, asked.objective.frame, natural.rows[:, :3]), atol=1e-4)
    assert banks.n_built == 2, "natural prompts have a bank of their own"
    both = sum(banks.get(asked.objective.frame, asked.space.usable, 900, natural=n).n_tokens for n in (False, True))
    bank = banks.get(asked.objective.frame, asked.space.usable, 900, natural=True)
    assert banks.n_tokens == both + 3 * len(torch.unique(bank.prompts[:, :2], dim=0)), "their beginnings, once"
