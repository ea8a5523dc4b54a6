from importlib.metadata import version

import pytest

from lmaudit.detectors import parse_detector
from sass import measured, sass_rows
from without import told_without

pytest.importorskip("profanity_check", reason="pip install 'lmaudit[detectors]'")


def test_scores_sass_as_measured_independently():
    if version("alt-profanity-check") != "1.9.1":
        pytest.skip("the numbers are those of alt-profanity-check 1.9.1")
    assert measured(parse_detector("profanity")) == (0.207, 0.033, 0.057, 0.208)


def test_scores_are_those_of_the_package():
    from profanity_check import predict_prob

    texts = [row["text"] for row in sass_rows()]
    scores = [verdict.score for verdict in parse_detector("profanity").judge(texts)]
    assert scores == pytest.approx(predict_prob(texts).tolist(), abs=1e-12)


def test_more_texts_than_a_batch():
    texts = ["You are nice.", "Holy crap!"] * 1100
    scores = [verdict.score for verdict in parse_detector("profanity").judge(texts)]
    assert len(set(scores[::2])) == len(set(scores[1::2])) == 1
    assert scores[0] < 0.5 < scores[1]


def test_its_version_names_both_packages():
    told = parse_detector("profanity").version
    assert told == f"alt-profanity-check {version('alt-profanity-check')} scikit-learn {version('scikit-learn')}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "module", "package"),
    [
        ("profanity", "profanity_check", "alt-profanity-check"),
        ("profanity", "sklearn", "alt-profanity-check"),
        ("hatesonar", "onnx", "hatesonar"),
    ],
)
def test_a_missing_package_is_told_in_one_line_with_what_to_install(line, module, package):
    told = told_without(line, [module])
    assert module in told
    assert told.endswith(f"pip install {package}")
    assert "\n" not in told
