"""Greedy minimisation, against a plain restatement that tries every token with a slow oracle."""

import pytest
import torch

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.optimizers import Arca, Gbda, RandomSearch
from lmaudit.optimizers.shortening import Minimising, minimised
from lmaudit.search.drive import Finished, Task
from lmaudit.search.query import score
from lmaudit.testing.contract import run
from lmaudit.testing.tiny import tiny_model
from oracle import completes, objectives

PATIENT = RandomSearch(n_sweeps=20)


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def prepare(model, length=5, target="cat", **settings):
    config = make_config(model={"name": model.name}, targets=(target,), prompt_length=length, **settings)
    audit = Audit(config, model)
    return audit, audit.problem(audit.outputs[target])


def end_of(model, task):
    (end,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
    return end


def first_found(model, nth, **settings):
    """The n-th search of some easy ones that finds a prompt: audit, problem, row and seed."""
    for seed in range(6):
        for target in ("cat", "the", " said", "pig", " mat", " is"):
            audit, asked = prepare(model, target=target, **settings)
            row = end_of(model, Task(0, asked, PATIENT, seed)).row
            nth -= row is not None
            if nth < 0:
                return audit, asked, row, seed
    raise AssertionError("no easy search found a prompt")


def by_hand(model, audit, row, n, least=1):
    """The definition, row by row with the oracle."""
    prompt, output = list(row[:-n]), list(row[-n:])
    while len(prompt) > least:
        trials = [prompt[:i] + prompt[i + 1 :] for i in range(len(prompt))]
        solving = [t for t in trials if completes(model, audit.setting, t, output)]
        if audit.config.typable:
            solving = [t for t in solving if audit.setting.survives(t)]
        if not solving:
            break
        prompt = max(solving, key=lambda t: objectives(model, audit.setting, [t], output)[0])
    return (*prompt, *output)


@pytest.mark.parametrize("settings", [{}, {"chat": True}, {"typable": True}], ids=str)
@pytest.mark.parametrize("seed", [0, 3], ids=["first", "fourth"])
def test_it_leaves_out_what_the_definition_leaves_out(model, settings, seed):
    audit, asked, found, seed = first_found(model, seed, **settings)
    shorter = end_of(model, Task(0, asked, Minimising(PATIENT), seed)).row
    assert shorter == by_hand(model, audit, found, len(asked.space.output))
    assert completes(model, audit.setting, shorter[: -len(asked.space.output)], asked.space.output.tolist())


def test_some_prompt_gets_shorter(model):
    for nth in range(4):
        _, asked, row, _ = first_found(model, nth)
        shorter = end_of(model, Task(0, asked, Given(row), 0)).row
        if len(shorter) < len(row):
            return
    pytest.fail("of four prompts of five tokens none can do without one")


def test_no_prompt_gets_shorter_than_the_shortest_that_was_asked_for(model):
    for nth in range(3):
        found = first_found(model, nth)[2]
        audit, asked = prepare(model, "3..5", target=model.vocabulary.decode_continuation(found[5:]))
        shorter = end_of(model, Task(0, asked, Given(found), 0)).row
        assert shorter == by_hand(model, audit, found, len(asked.space.output), least=3)
        assert len(shorter) >= 3 + len(asked.space.output)


class Given:
    """Minimises a row that is given."""

    name = "given"

    def __init__(self, row):
        self.row = row

    def search(self, space, *_):
        return minimised(space, torch.tensor(self.row))


def test_what_was_found_stays_found_when_the_budget_ends_while_it_is_shortened(model):
    _, asked, _, seed = first_found(model, 0)
    plain = end_of(model, Task(0, asked, PATIENT, seed))
    spent = plain.progress.n_tokens
    bound = end_of(model, Task(0, asked, Minimising(PATIENT), seed, max_tokens=spent))
    assert bound.row == plain.row
    assert bound.error is None
    assert bound.progress.n_tokens == spent
    before = end_of(model, Task(0, asked, Minimising(PATIENT), seed, max_tokens=spent - 1))
    assert before.row is None


def test_what_was_found_stays_found_when_the_model_fails_while_it_is_shortened():
    model = tiny_model("qwen2", seed=1)
    _, asked, row, _ = first_found(model, 0)

    class Failing(Given):
        def search(self, space, *_):
            yield from score(torch.tensor([self.row]), 0)
            model.embeddings[:] = torch.nan
            model.forget_prefixes()
            return (yield from minimised(space, torch.tensor(self.row)))

    end = end_of(model, Task(0, asked, Failing(row), 0))
    assert end.row == row
    assert end.error is None


def test_equal_rows_are_scored_once(model):
    asked = prepare(model, 3)[1]
    token, n = int(asked.space.tokens[3]), len(asked.space.output)
    search = minimised(asked.space, torch.tensor([token, token, token, *asked.space.output.tolist()]))
    query = next(search)
    assert query.rows.tolist() == [[token, token, *asked.space.output.tolist()]]
    assert query.rows.shape == (1, 2 + n)


@pytest.mark.parametrize("length", [3, "1..3"])
def test_findings_say_the_length_of_the_prompt_that_was_found(model, length):
    audit, asked = prepare(model, length, minimise=True, optimizers=(Arca(n_sweeps=20),))
    (spec,) = audit.runs()
    assert spec["prompt_length"] == length
    end = end_of(model, Task(0, asked, Minimising(Arca(n_sweeps=20)), 0))
    finding = audit.finding(spec, end)
    assert finding.solved
    assert finding.ids
    assert finding.prompt_length == len(finding.prompt_ids) == len(end.row) - len(asked.space.output)
    assert finding.lengths == (None if length == 3 else "1..3")
    assert sum(token["side"] == "prompt" for token in finding.tokens) == finding.prompt_length


def test_a_failed_search_is_not_touched(model):
    far = prepare(model, 3, " Donald on mat")[1]
    short = Gbda(n_steps=2, n_starts=2)
    plain, wrapped = (end_of(model, Task(0, far, searcher, 0)) for searcher in (short, Minimising(short)))
    assert plain.row is None
    assert (wrapped.row, wrapped.progress.n_tokens) == (None, plain.progress.n_tokens)
