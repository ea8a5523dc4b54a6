"""Hit logs of garak. With garak 0.17 at hand, its own classes read them: see docs/exports.md."""

import json

import pytest
from hypothesis import given, settings

from exported import held, judged, saying, texts
from lmaudit.exports import export

FIELDS = {
    "goal",
    "prompt",
    "output",
    "triggers",
    "score",
    "run_id",
    "attempt_id",
    "attempt_seq",
    "attempt_idx",
    "generator",
    "probe",
    "detector",
    "generations_per_prompt",
}


def hits(*found):
    return [json.loads(line) for line in export(held(*found), "garak")[""].decode("ascii").splitlines()]


def test_a_finding_is_a_hit_of_its_strongest_level_and_of_each_judge():
    first, second, third = hits(judged(saying("a")), saying("b", text=False, seed=1))
    assert first.keys() == FIELDS
    assert [hit["detector"] for hit in (first, second, third)] == [
        "lmaudit.regenerated",
        "lmaudit.judge.profanity",
        "lmaudit.ids",
    ]
    assert first["attempt_id"] == second["attempt_id"] != third["attempt_id"]
    assert (first["score"], first["generator"], first["triggers"]) == (1.0, "lmaudit m", ["o"])


def test_what_failed_is_no_hit():
    assert hits(saying("a", solved=False)) == []


@settings(max_examples=30, deadline=None)
@given(texts, texts)
def test_texts_are_verbatim(prompt, output):
    (hit,) = hits(saying(prompt, output))
    assert hit["prompt"]["turns"][0]["content"]["text"] == prompt
    assert hit["output"]["text"] == output


def test_garak_reads_its_messages():
    attempt = pytest.importorskip("garak.attempt", reason="garak is not installed: pip install garak")
    (hit,) = hits(saying("a", "b"))
    assert attempt.Conversation.from_dict(hit["prompt"]).last_message().text == "a"
    assert attempt.Message(**hit["output"]).text == "b"
