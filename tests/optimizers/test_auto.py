"""The default search does what its parts say, and each part can be switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from lmaudit.errors import InputError
from lmaudit.optimizers import Auto
from lmaudit.optimizers.auto import Starts, compared, confirmed
from lmaudit.optimizers.coordinate import seeded
from lmaudit.optimizers.shortening import Minimising
from lmaudit.optimizers.sources import Alike, Likely, Near, Recalled, Slopes, Uniform, proposed
from lmaudit.search.bank import build
from lmaudit.search.drive import Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Checkpoint, Continue, Linearise, Read, Reading, Recall, Score, Scores
from lmaudit.testing.contract import problem, run
from lmaudit.testing.tiny import tiny_model

SMALL = {"n_sweeps": 3, "n_candidates": 9, "n_gradients": 3, "n_starts": 8, "bank_tokens": 900}


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


@pytest.fixture(scope="module")
def asked(model):
    return problem(model, " Donald on")


def answered(evaluator, asked, search, seen=None):
    """What a generator returns whose queries are answered."""
    answer = None
    try:
        while True:
            query = search.send(answer)
            if seen is not None:
                seen.append(query)
            answer = None if isinstance(query, Checkpoint) else evaluator.evaluate([(asked, query)])[0]
    except StopIteration as stop:
        return stop.value


def queries(model, asked, **settings):
    seen = []
    answered(Evaluator(model), asked, Auto(**{**SMALL, **settings}).search(asked.space, 3), seen)
    return seen


def tokens_of(model, asked, source, row, position, n=6, seed=1):
    return answered(Evaluator(model), asked, source.propose(row, position, n, seeded(seed)))


@pytest.fixture(scope="module")
def row(asked):
    return asked.space.start(seeded(5))


def test_slopes_rank_by_the_direction_that_gradients_at_random_tokens_agree_on(model, asked, row):
    source, space = Slopes(asked.space, 4), asked.space
    got = tokens_of(model, asked, source, row, 1, n=8)
    drawn = space.sample(4, seeded(1), 1)
    gradients = answered(Evaluator(model), asked, gradient_of(space.replace(row, 1, drawn), 1))
    table = model.embeddings.float() - model.embeddings.float().mean(0)
    cosines = functional.cosine_similarity(table, functional.normalize(gradients, dim=1).mean(0)[None])
    expected = [t for t in cosines.argsort(descending=True).tolist() if space.allowed[t]][:8]
    assert got.tolist() == expected


def gradient_of(rows, position):
    local = yield Linearise(rows, position)
    return local.gradient


def test_what_is_known_exactly_keeps_its_scale(model, row):
    natural = problem(model, " Donald on", objective=({"term": "naturalness", "weight": 50.0},))
    got = tokens_of(model, natural, Slopes(natural.space, 2), row, 2, n=5)
    said = model.next_logprobs(row[None, :2])[0].masked_fill(~natural.space.allowed, -torch.inf)
    assert got.tolist() == said.topk(5).indices.tolist(), "so heavy a weight leaves the gradients no say"


def test_near_draws_from_the_tokens_most_like_any_output_token(model, asked, row):
    got = tokens_of(model, asked, Near(asked.space, 2), row, 0, n=5)
    likeness = (model.directions.float() @ model.directions[asked.space.output].float().T).amax(1)
    best = likeness.masked_fill(~asked.space.allowed, -torch.inf).topk(10).indices
    assert len(set(got.tolist())) == 5
    assert set(got.tolist()) <= set(best.tolist())
    assert got.tolist() != tokens_of(model, asked, Near(asked.space, 2), row, 0, n=5, seed=2).tolist()


def test_alike_draws_from_the_tokens_most_like_the_one_that_is_there(model, asked, row):
    got = tokens_of(model, asked, Alike(asked.space, 1), row, 2, n=7)
    likeness = (model.directions.float() @ model.directions[row[2]].float()).masked_fill(~asked.space.allowed, -9)
    assert set(got.tolist()) == set(likeness.topk(7).indices.tolist())


def test_recalled_draws_from_the_best_prompts(model, asked, row):
    prompts = torch.stack([asked.space.start(seeded(i))[:3] for i in range(20)])
    got = tokens_of(model, asked, Recalled(asked.space, prompts, 6), row, 1, n=4)
    best = list(dict.fromkeys(prompts[:, 1].tolist()))[:6]
    assert len(set(got.tolist())) == 4
    assert set(got.tolist()) <= set(best)


def test_likely_draws_what_the_model_says(model, asked, row):
    said = model.next_logprobs(torch.cat((row.new_tensor(model.vocabulary.separator), row[:2]))[None])[0].exp()
    drawn = torch.cat([tokens_of(model, asked, Likely(asked.space), row, 2, n=1, seed=seed) for seed in range(300)])
    allowed = said * asked.space.allowed
    top = allowed.topk(10).indices
    expected = float(allowed[top].sum() / allowed.sum())
    assert torch.isin(drawn, top).float().mean() == pytest.approx(expected, abs=0.1)


def test_of_several_sources_every_token_comes_once(model, asked, row):
    sources = [(Uniform(asked.space), 200), (Near(asked.space), 5), (Alike(asked.space), 0)]
    got = answered(Evaluator(model), asked, proposed(sources, row, 1, seeded(4))).tolist()
    assert len(set(got)) == len(got) == int(asked.space.allowed.sum())


def test_starts_are_the_banks_then_random(model, asked):
    known = torch.stack([asked.space.start(seeded(i)) for i in range(11)])
    starts = Starts(asked.space, 0, 4, 2, known)
    evaluator, taken = Evaluator(model), []
    for _ in range(5):
        seen = []
        rows, found = answered(evaluator, asked, starts.following(), seen)
        assert found is None
        (scored,) = seen
        taken.append(scored.rows)
        (scores,) = evaluator.evaluate([(asked, scored)])
        assert len(rows) == 2
        assert torch.equal(rows[0], scored.rows[scores.objective.argmax()])
    assert torch.equal(torch.cat(taken[:3]), known)
    assert not torch.equal(taken[3], taken[4])
    assert starts.n_taken == 11 + 4 + 4


def test_first_starts_are_what_the_bank_says_is_best(model, asked):
    first = queries(model, asked)
    assert isinstance(first[0], Recall)
    (recalled,) = Evaluator(model).evaluate([(asked, first[0])])
    assert isinstance(first[1], Score)
    assert torch.equal(first[1].rows, recalled.rows[:8])


def test_a_quarter_is_looked_at_where_the_order_of_the_bank_is_right_already(model):
    cat = problem(model, "cat")
    assert len(cat.space.output) == 1
    scored = [query for query in queries(model, cat) if isinstance(query, Score)]
    assert len(scored[0].rows) == 2


@pytest.mark.parametrize(
    ("settings", "never"),
    [
        ({"bank_tokens": 0}, Recall),
        ({"sources": "near,recalled,alike"}, Linearise),
        ({"sources": ""}, Linearise),
        ({"climb": False}, Linearise),
        ({}, Continue),
        ({}, Read),
    ],
)
def test_what_is_off_is_not_asked(model, asked, settings, never):
    assert not any(isinstance(query, never) for query in queries(model, asked, **settings))


def test_natural_starts_come_first_in_proportion(model, asked):
    first = queries(model, asked, naturalness=2.0)
    (recalled,) = Evaluator(model).evaluate([(asked, first[0])])
    order = (recalled.logprobs + 2.0 * recalled.naturalness).argsort(descending=True, stable=True)
    assert isinstance(first[1], Score)
    assert torch.equal(first[1].rows, recalled.rows[order[:8]])
    assert not torch.equal(first[1].rows, recalled.rows[:8])


def test_natural_rows_are_preferred_in_proportion(model, asked):
    rows = torch.stack([asked.space.start(seeded(i)) for i in range(6)])
    evaluator = Evaluator(model)
    (scores,), (reading,) = (evaluator.evaluate([(asked, ask)]) for ask in (Score(rows, 0), Read(rows, 0)))
    both = answered(evaluator, asked, compared(rows, 0, 0.7))
    assert torch.allclose(both.objective, scores.objective + 0.7 * reading.naturalness)
    assert torch.equal(both.margin, scores.margin)
    neither = answered(evaluator, asked, compared(rows, 0, 0.0))
    assert torch.equal(neither.objective, scores.objective)


def test_of_several_solutions_a_natural_search_takes_the_most_natural(model):
    asked = problem(model, "cat")
    rows = torch.stack([asked.space.start(seeded(i)) for i in range(3)])
    evaluator = Evaluator(model)
    (scores,) = evaluator.evaluate([(asked, Score(rows, 0))])
    made = replace(
        scores,
        solved=torch.tensor([True, True, False]),
        margin=torch.tensor([2.0, 1.0, 3.0]),
        objective=torch.tensor([-2.0, -1.0, 0.0]),
    )
    for natural, expected in ((False, 0), (True, 1)):
        search = confirmed(rows, made, natural=natural)
        assert torch.equal(next(search).rows, rows[expected : expected + 1])


SEVERAL = {**SMALL, "n_sweeps": 60, "n_starts": 4, "sources": "likely,near"}


def easy(model):
    """A problem that is solved again and again: what the model says behind more prompts of a bank than anything."""
    frame = problem(model, "cat").objective.frame
    bank = build(model, frame, model.vocabulary.usable, SMALL["bank_tokens"])
    return problem(model, model.vocabulary.strings[int(bank.greedy.mode().values)])


def test_of_several_solutions_the_most_natural_is_the_finding(model):
    asked, evaluator = easy(model), Evaluator(model)
    found = {}
    for n in (1, 2, 5):
        seen = []
        found[n] = answered(evaluator, asked, Auto(**SEVERAL, n_solutions=n).search(asked.space, 3), seen)
        solved = [q.rows for q in seen if isinstance(q, Read)] if n > 1 else []
        assert len(solved) == (n if n > 1 else 0)
        if solved:
            rows = torch.cat(solved)
            (scores,) = evaluator.evaluate([(asked, Score(rows, 0))])
            (reading,) = evaluator.evaluate([(asked, Read(rows, 0))])
            assert scores.solved.all()
            assert torch.equal(found[n], rows[reading.naturalness.argmax()])
            assert torch.equal(rows[0], found[1])
        behind_the_first = [i for i, q in enumerate(seen) if isinstance(q, Read)][:1]
        assert not any(isinstance(q, Checkpoint) for i in behind_the_first for q in seen[i:])


@pytest.mark.parametrize("n_answered", [0, 1])
def test_what_was_found_stays_found_when_the_budget_ends(model, n_answered):
    """`n_answered`: queries behind the first solution."""
    asked, evaluator = easy(model), Evaluator(model)
    auto = Auto(**SEVERAL, n_solutions=9)
    search, query, solved, n_left = auto.search(asked.space, 3), None, None, n_answered
    while True:
        answer = None if query is None or isinstance(query, Checkpoint) else evaluator.evaluate([(asked, query)])[0]
        query = search.send(answer)
        if isinstance(query, Read) and solved is None:
            solved = query.rows[0]
            continue
        n_left -= solved is not None
        if n_left < 0:
            break
    with pytest.raises(StopIteration) as end:
        search.throw(InputError("the budget is spent"))
    assert torch.equal(end.value.value, solved)


def test_a_bound_that_falls_anywhere_behind_the_first_solution_loses_nothing(model):
    asked = easy(model)

    def end(n, bound, wrapped=lambda auto: auto):
        task = Task(0, asked, wrapped(Auto(**SEVERAL, n_solutions=n)), 3, max_tokens=bound)
        return next(e for e in run(model, [task], n_live=1) if isinstance(e, Finished))

    first = end(1, None).progress.n_tokens
    for bound in range(first, first + 60, 6):
        assert end(4, bound).row is not None
        assert end(4, bound, Minimising).row is not None


def test_a_solution_that_cannot_be_read_as_text_is_one(model):
    asked = easy(model)
    rows = torch.stack([asked.space.start(seeded(i)) for i in range(3)])
    (scores,) = Evaluator(model).evaluate([(asked, Score(rows, 0))])
    search = compared(rows, 0, 0.4)
    next(search)
    search.send(replace(scores, solved=torch.tensor([False, True, False])))
    with pytest.raises(StopIteration) as end:
        search.send(Reading(torch.tensor([-torch.inf] * 3)))
    assert torch.equal(next(confirmed(rows, end.value.value, natural=True)).rows, rows[1:2])


def test_an_error_before_anything_is_found_is_an_error(asked):
    search = Auto(**SMALL, n_solutions=2).search(asked.space, 3)
    next(search)
    with pytest.raises(InputError):
        search.throw(InputError("the model fails"))


def test_gradients_are_not_taken_in_front_of_the_output(model, asked):
    positions = {query.position for query in queries(model, asked) if isinstance(query, Linearise)}
    assert positions == {0, 1}
    behind = problem(model, " Donald on", suffix=" so")
    positions = {query.position for query in queries(model, behind) if isinstance(query, Linearise)}
    assert positions == {0, 1, 2}, "a suffix stands there"


def is_batch(query):
    """Whether a query looks at starts: its rows differ at more than one position."""
    return isinstance(query, Score) and len(query.rows) > 1 and bool((query.rows != query.rows[0]).any(0).sum() > 1)


def test_a_prompt_is_climbed_from_until_a_sweep_brings_nothing(model, asked):
    seen = queries(model, asked, n_sweeps=12)
    evaluator, sweeps, row = Evaluator(model), [], None
    for query in seen:
        if isinstance(query, Checkpoint) and len(sweeps) < 40:
            sweeps.append((row, query.rows[0]))
            row = query.rows[0]
        elif is_batch(query):
            row = None
    climbs = [(before, after) for before, after in sweeps if before is not None]
    (before,) = evaluator.evaluate([(asked, Score(torch.stack([b for b, _ in climbs]), 0))])
    (after,) = evaluator.evaluate([(asked, Score(torch.stack([a for _, a in climbs]), 0))])
    assert (after.objective > before.objective).any()
    assert not any(torch.equal(b, a) for b, a in climbs), "what brought nothing is no longer first"
    assert sum(map(is_batch, seen)) > 1, "it has begun anew"


@pytest.mark.parametrize("n_candidates", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("bank_tokens", [0, 900])
def test_few_candidates_and_starts_are_shared_out_whole(model, asked, n_candidates, bank_tokens):
    seen = queries(model, asked, n_candidates=n_candidates, n_starts=1, bank_tokens=bank_tokens)
    looked_at = [len(query.rows) for query in seen if isinstance(query, Score) and not is_batch(query)]
    assert max(looked_at) <= n_candidates + 1
    assert any(isinstance(query, Checkpoint) for query in seen), "it can be continued"


def test_without_restarts_one_prompt_is_climbed_from(model, asked):
    assert sum(map(is_batch, queries(model, asked, restart=False, n_sweeps=10))) == 1


def test_the_bank_alone_is_looked_at_in_its_order(model, asked):
    seen = queries(model, asked, climb=False, n_sweeps=4)
    (recalled,) = Evaluator(model).evaluate([(asked, seen[0])])
    looked_at = torch.cat([query.rows for query in seen if isinstance(query, Score)])
    assert torch.equal(looked_at, recalled.rows[:32])


def test_it_finds_what_exhaustive_search_finds(model):
    """On a tiny vocabulary every two-token prompt can be tried."""
    easy = problem(model, "pig", prompt_length=2)
    tokens = easy.space.tokens
    pairs = torch.cartesian_prod(tokens, tokens)
    rows = torch.cat((pairs, easy.space.output.expand(len(pairs), -1)), dim=1)
    (scores,) = Evaluator(model).evaluate([(easy, Score(rows, 0))])
    assert scores.solved.any()
    found = answered(Evaluator(model), easy, Auto(n_sweeps=200, bank_tokens=900).search(easy.space, 0))
    assert found is not None
    assert scores.solved[(rows == found).all(1)].all()


def scores_of(solved, margin, objective):
    solved, none = torch.tensor(solved), torch.zeros(len(solved))
    return Scores(torch.tensor(objective), {}, none, torch.tensor(margin), solved, solved, torch.zeros(len(solved), 1))


@pytest.mark.parametrize("alone", [True, False])
def test_what_solves_in_a_batch_is_asked_about_alone(alone):
    rows = torch.arange(12).reshape(4, 3)
    batch = scores_of([False, True, True, False], [9.0, 0.1, 0.5, -1.0], [-1.0, -2.0, -3.0, -4.0])
    asking = confirmed(rows, batch)
    query = next(asking)
    assert torch.equal(query.rows, rows[2, None]), "of those that solve, the widest margin"
    with pytest.raises(StopIteration) as end:
        asking.send(scores_of([alone], [0.0], [-3.0]))
    assert (end.value.value is None) != alone
    if alone:
        assert torch.equal(end.value.value, rows[2])


def test_nothing_is_asked_again_where_nothing_solves():
    with pytest.raises(StopIteration) as end:
        next(confirmed(torch.arange(6).reshape(2, 3), scores_of([False, False], [1.0, 2.0], [-1.0, -2.0])))
    assert end.value.value is None
    best_fails = scores_of([False, True], [-1.0, 2.0], [-1.0, -2.0])
    with pytest.raises(StopIteration) as end:
        next(confirmed(torch.arange(6).reshape(2, 3), best_fails, every_row=False))
    assert end.value.value is None


@pytest.mark.parametrize("sources", ["slope", "near;recalled", "near,", " near", "near, recalled"])
def test_unknown_sources_are_refused(sources):
    with pytest.raises(ValidationError):
        Auto(sources=sources)
