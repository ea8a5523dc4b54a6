"""`Continue`: what the model would say next behind beginnings of prompts, and what that costs."""

import pytest
import torch

from lmaudit.errors import ModelError
from lmaudit.search.drive import Driver, Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Continue, following, score
from lmaudit.testing.contract import problem, run
from lmaudit.testing.tiny import tiny_model

AROUND = {
    "plain": {},
    "prefix and suffix": {"prefix": "She said", "suffix": " is"},
    "chat": {"chat": True},
}


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


class Asking:
    """A search that asks about the given beginnings, one after another, and finds nothing."""

    name = "asking"

    def __init__(self, *beginnings, scored_at=None):
        self.beginnings, self.scored_at, self.said = beginnings, scored_at, []

    def search(self, space, *_):
        if self.scored_at is not None:
            yield from score(torch.cat((torch.tensor([[7, 8, 9]]), space.output[None]), 1), self.scored_at)
        for rows in self.beginnings:
            self.said.append((yield from following(torch.tensor(rows, dtype=torch.long).reshape(len(rows), -1))))


def spent(model, asked, *beginnings, scored_at=None):
    (end,) = [
        e
        for e in run(model, [Task(0, asked, Asking(*beginnings, scored_at=scored_at), 0)], n_live=1)
        if isinstance(e, Finished)
    ]
    assert end.error is None
    return end.progress.n_tokens


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("rows", [[[5, 9], [5, 11], [40, 9]], [[5]], [[], []], [[1, 2, 3]]])
def test_the_answer_is_the_models_own_distribution(model, around, rows):
    asked = problem(model, "cat", **AROUND[around])
    before = asked.objective.frame.before or model.vocabulary.separator
    asking = Asking(rows)
    list(run(model, [Task(0, asked, asking, 0)], n_live=1))
    (said,) = asking.said
    assert said.dtype == torch.float32
    assert said.shape == (len(rows), len(model.embeddings))
    for own, row in zip(said, rows, strict=True):
        ids = torch.tensor([[*before, *row]], dtype=torch.long)
        expected = model.module(input_ids=ids, use_cache=False).logits[0, -1].double().log_softmax(-1)
        assert torch.allclose(own.double(), expected, atol=1e-4)


def test_nothing_follows_nothing(model, monkeypatch):
    """Where no token separates documents there is nothing that a distribution could depend on."""
    monkeypatch.setattr(model.vocabulary, "separator", ())
    asking = Asking([[], []], [[5]])
    list(run(model, [Task(0, problem(model, "cat"), asking, 0)], n_live=1))
    uniform, behind = asking.said
    assert torch.allclose(uniform.exp(), torch.full_like(uniform, 1 / uniform.shape[1]))
    assert torch.allclose(behind, model.next_logprobs(torch.tensor([[5]])), atol=1e-5)


def test_tokens_are_counted_once_where_beginnings_grow(model):
    """Every token of the tree of beginnings is fed once; what the last query has read need not be read again."""
    chat = problem(model, "cat", chat=True)
    n_before = len(chat.objective.frame.before)
    assert spent(model, chat, [[]]) == n_before
    assert spent(model, chat, [[5, 9], [5, 11], [40, 9]]) == n_before + 2 + 1 + 2
    assert spent(model, chat, [[5], [40]], [[5, 9], [5, 11], [40, 9]]) == n_before + 2 + 3
    assert spent(model, chat, [[5], [40]], [[5], [40]]) == n_before + 2
    assert spent(model, chat, [[5], [40]], [[6]], [[5]]) == n_before + 2 + 1 + 1  # only the last query is remembered


def test_what_is_read_apart_is_read_for_itself(model):
    """Behind what separates documents, where no other query reads."""
    plain = problem(model, "cat")
    assert spent(model, plain, [[]]) == 1
    assert spent(model, plain, [[5, 9], [5, 11], [40, 9]]) == 1 + 2 + 1 + 2
    assert spent(model, plain, [[5], [40]], [[5], [40]]) == 2 * (1 + 2)
    assert spent(model, plain, [[7, 8]], scored_at=2) == spent(model, plain, scored_at=2) + 1 + 2


def test_what_a_score_has_read_before_its_position_is_known(model):
    asked = problem(model, "cat", prefix="She said")
    alone = spent(model, asked, scored_at=2)
    assert spent(model, asked, [[7, 8]], scored_at=2) == alone
    assert spent(model, asked, [[7, 8, 9]], scored_at=2) == alone + 1


def test_neighbours_of_the_same_length_are_answered_in_one_pass_and_change_nothing(model):
    asked = problem(model, "cat")
    searches = [Asking([[5, 9], [i, i + 1]]) for i in range(20, 26)]
    evaluator, sizes = Evaluator(model), []
    plain = evaluator.evaluate
    evaluator.evaluate = lambda group: (sizes.append(len(group)), plain(group))[1]
    waiting = [Task(i, asked, search, 0) for i, search in enumerate(searches)]
    list(Driver(evaluator, 6).run(lambda n: [waiting.pop(0) for _ in range(min(n, len(waiting)))]))
    assert sizes == [6]
    for search in searches:
        (alone,) = evaluator.evaluate([(asked, Continue(torch.tensor(search.beginnings[0])))])
        assert torch.allclose(search.said[0], alone.logprobs, atol=1e-5)


def test_rows_that_overflow_say_nothing_and_all_of_them_is_an_error():
    model = tiny_model("qwen2", seed=1)
    asked = problem(model, "cat")
    model.embeddings[5] = torch.inf
    evaluator = Evaluator(model)
    (said,) = evaluator.evaluate([(asked, Continue(torch.tensor([[5], [6]])))])
    assert torch.allclose(said.logprobs[0].exp(), torch.full_like(said.logprobs[0], 1 / len(said.logprobs[0])))
    assert said.logprobs[1].std() > 0
    assert evaluator.n_dropped_rows == 1
    (error,) = evaluator.evaluate([(asked, Continue(torch.tensor([[5]])))])
    assert isinstance(error, ModelError)
