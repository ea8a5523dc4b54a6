"""Searches of several lengths: shares, resuming, and that the first length which succeeds is the end."""

import pytest

from lmaudit.audit import Audit
from lmaudit.config import label_of, make_config
from lmaudit.errors import InputError
from lmaudit.optimizers import Arca, Auto, Beam, Gbda, Gcg, RandomSearch
from lmaudit.optimizers.rising import Rising, shares
from lmaudit.search.drive import Checkpointed, Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Checkpoint, Score
from lmaudit.store import Run, RunState
from lmaudit.testing.contract import run
from lmaudit.testing.joint import SURPRISE, joint_audit
from lmaudit.testing.tiny import tiny_model

OPTIMIZERS = {
    "arca": Arca(n_sweeps=7, n_candidates=6, n_gradients=4),
    "random": RandomSearch(n_sweeps=2, n_candidates=6),  # fewer sweeps than lengths: one each
    "gcg": Gcg(n_steps=7, n_candidates=6, topk=8),
    "gbda": Gbda(n_steps=4, n_starts=2),
    "beam": Beam(n_rounds=4, n_beams=3, n_branches=3),
    "auto": Auto(n_sweeps=9, n_candidates=6, n_gradients=2, n_starts=8, bank_tokens=900),
}
FAR = " Donald on mat"


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def prepare(model, optimizer, target=FAR, length="1..3", **settings):
    config = make_config(
        model={"name": model.name}, targets=(target,), prompt_length=length, optimizers=(optimizer,), **settings
    )
    audit = Audit(config, model)
    return audit, audit.task(Run(0, audit.runs()[0], RunState.WAITING, None, None, None))


@pytest.mark.parametrize(
    ("lengths", "n", "expected"),
    [
        (range(1, 4), 50, [(1, 0, 16), (2, 16, 17), (3, 33, 17)]),
        (range(2, 4), 4, [(2, 0, 2), (3, 2, 2)]),
        (range(1, 5), 2, [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1)]),
        (range(3, 4), 9, [(3, 0, 9)]),
    ],
)
def test_passes_are_shared_out_fairly(lengths, n, expected):
    assert list(shares(lengths, Arca(n_sweeps=n))) == expected
    assert list(shares(lengths, Gcg(n_steps=n))) == expected


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_search_that_is_cut_anywhere_ends_as_one_that_is_not(model, name):
    task = prepare(model, OPTIMIZERS[name])[1]
    events = list(run(model, [task], n_live=1))
    (whole,) = [e for e in events if isinstance(e, Finished)]
    kept = [e.progress for e in events if isinstance(e, Checkpointed)]
    places = [(p.n_sweeps, p.position) for p in kept]
    assert places == sorted(places)
    assert {len(p.rows[0]) for p in kept} >= {2 + len(task.problem.space.output)}
    for progress in kept[:: max(1, len(kept) // 6)]:
        again = Task(0, task.problem, task.optimizer, task.seed, progress)
        (end,) = [e for e in run(model, [again], n_live=1) if isinstance(e, Finished)]
        assert (end.row, end.progress.n_tokens, end.progress.best) == (
            whole.row,
            whole.progress.n_tokens,
            whole.progress.best,
        )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_length_is_searched_in_turn_and_what_is_asked_fits_it(model, name):
    task = prepare(model, OPTIMIZERS[name])[1]
    search, lengths, n = Rising(OPTIMIZERS[name]).search(task.problem.space, 3), [], len(task.problem.space.output)
    evaluator, answer = Evaluator(model), None
    while True:
        try:
            query = search.send(answer)
        except StopIteration:
            break
        answer = None if isinstance(query, Checkpoint) else evaluator.evaluate([(task.problem, query)])[0]
        if isinstance(query, Score):
            lengths.append(query.rows.shape[1] - n)
    if name != "beam":  # which passes through the shorter ones on its way
        assert lengths == sorted(lengths)
    assert set(lengths) == {1, 2, 3}


def test_neighbours_change_nothing(model):
    tasks = []
    for i, target in enumerate(("cat", "pig", FAR, " said", " mat", "the")):
        task = prepare(model, OPTIMIZERS["arca"], target)[1]
        tasks.append(Task(i, task.problem, task.optimizer, i))
    together = {e.key: e for e in run(model, tasks, n_live=6) if isinstance(e, Finished)}
    for task in tasks[::2]:
        (alone,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
        assert (alone.row, alone.progress.n_tokens) == (together[task.key].row, together[task.key].progress.n_tokens)


def test_it_finds_prompts_that_are_true_and_of_a_length_that_was_asked_for(model):
    found = []
    for target in ("cat", "the", " said", "pig"):
        audit, task = prepare(model, Arca(n_sweeps=30), target, "1..4")
        (end,) = [e for e in run(model, [task], n_live=1) if isinstance(e, Finished)]
        if end.row is not None:
            finding = audit.finding(audit.runs()[0], end)
            assert finding.ids
            assert finding.lengths == "1..4"
            assert 1 <= finding.prompt_length <= 4
            found.append(finding.prompt_length)
    assert found
    assert min(found) < 4


def test_prompt_and_output_can_be_searched_together(model):
    audit = joint_audit(
        model,
        prompt_length="1..3",
        output_length=1,
        objective=SURPRISE,
        optimizers=(Arca(n_sweeps=30),),
        seeds=range(4),
    )
    specs = audit.runs()
    tasks = [audit.task(Run(i, spec, RunState.WAITING, None, None, None)) for i, spec in enumerate(specs)]
    ends = [e for e in run(model, tasks, n_live=4) if isinstance(e, Finished)]
    found = [audit.finding(specs[e.key], e) for e in ends if e.row]
    assert found
    for finding in found:
        assert finding.ids
        assert all(finding.conditions.values())
        assert len(finding.output_ids) == 1
        assert finding.prompt_length == len(finding.prompt_ids) <= 3


@pytest.mark.parametrize(
    "said",
    ["8..1", "3..3", "0..4", "1..", "..4", "1..2..3", "a..b", "1...4", "1..20000", "-1..4", "", "x", 0, 1.5, True],
)
def test_a_bad_length_is_one_line(said):
    with pytest.raises(InputError) as caught:
        make_config(model={"name": "tiny"}, targets=("cat",), prompt_length=said)
    assert str(caught.value).startswith("prompt_length: expected ")
    assert repr(said) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lengths_have_one_spelling():
    spelt = [make_config(model={"name": "t"}, targets=("cat",), prompt_length=said) for said in ("1..8", " 1 .. 8 ")]
    assert spelt[0] == spelt[1]
    assert spelt[0].lengths == range(1, 9)
    assert spelt[0].minimises
    assert make_config(model={"name": "t"}, targets=("cat",), prompt_length="3").prompt_length == 3
    assert not make_config(model={"name": "t"}, targets=("cat",), prompt_length=3).minimises


def test_an_output_cannot_be_as_long_as_prompts_of_several_lengths():
    with pytest.raises(InputError, match=r"^output_length: 'same\+1' has no meaning for prompts of 1\.\.3 tokens"):
        make_config(model={"name": "t"}, prompt_length="1..3", output_length="same+1")


def test_labels_stay_those_of_the_optimiser(model):
    assert label_of(OPTIMIZERS["arca"]) == prepare(model, OPTIMIZERS["arca"])[1].optimizer.name == "arca"


def test_substitutions_that_the_shortest_prompt_has_no_room_for_are_refused_before_any_search():
    with pytest.raises(InputError, match=r"gcg: n_replace must be at most the shortest prompt's length, 1; got 2"):
        make_config(model={"name": "t"}, targets=("cat",), prompt_length="1..3", optimizers=(Gcg(n_replace=2),))
    make_config(model={"name": "t"}, targets=("cat",), prompt_length="2..3", optimizers=(Gcg(n_replace=2),))
