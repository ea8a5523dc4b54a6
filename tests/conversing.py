"""One search, answered by a model query by query, for tests that look at every step."""

from lmaudit.search.evaluate import Evaluator
from lmaudit.search.query import Checkpoint


def conversation(model, problem, optimizer, seed=5):
    """(query, answer) pairs of one search."""
    search, evaluator = optimizer.search(problem.space, seed), Evaluator(model)
    pairs, query = [], next(search)
    while True:
        answer = None if isinstance(query, Checkpoint) else evaluator.evaluate([(problem, query)])[0]
        pairs.append((query, answer))
        try:
            query = search.send(answer)
        except StopIteration as stop:
            return pairs, stop.value
