from lmaudit.optimizers import OPTIMIZERS, Arca, Auto, AutoPrompt, Beam, Gbda, Gcg, Pez, RandomSearch
from lmaudit.testing.contract import OptimizerContract


class TestArca(OptimizerContract):
    optimizer = Arca(n_sweeps=2, n_candidates=8, n_gradients=6)
    patient = Arca(n_sweeps=20)


class TestArcaThatKeepsTheIncumbent(OptimizerContract):
    optimizer = Arca(n_sweeps=2, n_candidates=8, n_gradients=6, keep_incumbent=True, every_row=True)
    patient = Arca(n_sweeps=20, keep_incumbent=True, every_row=True)


class TestAuto(OptimizerContract):
    optimizer = Auto(n_sweeps=3, n_candidates=8, n_gradients=3, n_starts=8, bank_tokens=300)
    patient = Auto(n_sweeps=30, bank_tokens=3_000)


class TestAutoWithoutABank(OptimizerContract):
    optimizer = Auto(n_sweeps=3, n_candidates=8, n_gradients=3, n_starts=8, bank_tokens=0)
    patient = Auto(n_sweeps=30, bank_tokens=0)


class TestAutoForNaturalPrompts(OptimizerContract):
    optimizer = Auto(n_sweeps=3, n_candidates=10, n_starts=8, bank_tokens=300, sources="likely,near", naturalness=0.5)
    patient = Auto(n_sweeps=30, bank_tokens=3_000, sources="likely,near", naturalness=0.1)


class TestAutoPrompt(OptimizerContract):
    optimizer = AutoPrompt(n_sweeps=2, n_candidates=8)
    patient = AutoPrompt(n_sweeps=20)


class TestRandomSearch(OptimizerContract):
    optimizer = RandomSearch(n_sweeps=2, n_candidates=8)
    patient = RandomSearch(n_sweeps=20)


class TestBeam(OptimizerContract):
    optimizer = Beam(n_rounds=3, n_beams=4, n_branches=5)
    patient = Beam(n_rounds=30)


class TestGbda(OptimizerContract):
    optimizer = Gbda(n_steps=6, n_starts=3)
    patient = Gbda(n_steps=150, n_starts=16, learning_rate=0.5)


class TestGcg(OptimizerContract):
    optimizer = Gcg(n_steps=4, n_candidates=12, topk=8)
    patient = Gcg(n_steps=60, n_candidates=64, topk=32)


class TestGcgWithBufferAndMellowmax(OptimizerContract):
    optimizer = Gcg(n_steps=4, n_candidates=12, topk=8, n_replace=2, buffer_size=3, mellowmax=True, every_row=True)
    patient = Gcg(n_steps=60, n_candidates=64, topk=32, n_replace=2, buffer_size=3, mellowmax=True, every_row=True)


class TestPez(OptimizerContract):
    optimizer = Pez(n_steps=14, n_updates=5)
    patient = Pez(n_steps=300, n_updates=60)


class TestPezByDescentToTheNearest(OptimizerContract):
    optimizer = Pez(n_steps=14, n_updates=5, rule="sgd", learning_rate=0.5, weight_decay=0.0, nearest="euclidean")
    patient = Pez(n_steps=300, n_updates=60, rule="sgd", weight_decay=0.0, nearest="euclidean")


def test_every_optimiser_has_a_contract_test():
    tested = {cls.optimizer.name for cls in OptimizerContract.__subclasses__()}
    assert tested == set(OPTIMIZERS)
