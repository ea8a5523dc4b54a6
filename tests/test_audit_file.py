import io
import re
import sys
from pathlib import Path

import pytest

from lmaudit.audit_file import read_audit, written_audit
from lmaudit.config import AuditConfig, Judge
from lmaudit.errors import InputError
from lmaudit.objectives import Membership
from lmaudit.optimizers import OPTIMIZERS

TARGETS = "model: tiny\ntargets: [cat]\n"
JOINT = "model: tiny\noutput_length: 2\n"


def read(tmp_path, text, name="audit.yaml", **more):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_audit(path, **more)


def test_short_forms_stand_for_whole_settings(tmp_path):
    text = "model: tiny\ntargets: ' Ed'\nonly: letters\noptimizers: random\njudges: profanity\nseeds: 3\n"
    more = "objective: {term: second-model, model: other, weight: 1e-3}\nbudget_s: 1e3\nlive: 4\n"
    found = read(tmp_path, text + more)
    (cell,) = found.plan.cells
    config = cell.config
    assert (config.targets, config.only, config.seeds) == ((" Ed",), ("letters",), (0, 1, 2))
    assert (config.judges[0].detector, config.optimizers[0].name) == ("profanity", "random")
    assert (config.second_models[0].model.name, config.second_models[0].weight) == ("other", 0.001)
    assert dict(found.limits) == {"budget_s": 1000.0, "live": 4}


def test_who_searches_where_nobody_is_named_depends_on_what_is_searched(tmp_path):
    for text, name in ((TARGETS, "auto"), (JOINT, "arca"), (f"{TARGETS}optimizers: [arca]\n", "arca")):
        plan = read(tmp_path, f"{text}prompt_length: [2, 3]\n").plan
        assert [[one.name for one in cell.config.optimizers] for cell in plan.cells] == [[name], [name]]
        assert [one["name"] for one in plan.fields["optimizers"]] == [name], "the study keeps who searched"


def test_words_that_other_yaml_takes_for_truth_are_texts(tmp_path):
    (cell,) = read(tmp_path, "model: tiny\ntargets: [yes, no, on, 2022-10-01]\noverlap: off\n").plan.cells
    assert cell.config.targets == ("yes", "no", "on", "2022-10-01")
    assert cell.config.overlap == "off"


def test_targets_of_a_file_lie_beside_it(tmp_path):
    (tmp_path / "names.txt").write_text(" cat\n the\n")
    (cell,) = read(tmp_path, "model: tiny\ntargets_file: names.txt\n").plan.cells
    assert cell.config.targets == (" cat", " the")


def test_a_marker_of_bytes_is_ignored_and_standard_input_is_read(tmp_path, monkeypatch):
    assert read(tmp_path, b"\xef\xbb\xbf" + TARGETS.encode()).plan.n_searches == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TARGETS.encode())))
    assert read_audit(Path("-")).plan.n_searches == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"model: caf\xe9\n")))
    with pytest.raises(InputError, match="standard input is not UTF-8"):
        read_audit(Path("-"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: m\nkind: import\ntargets: [a]\n", "line 2: kind: nothing of an import is searched"),
        # keys
        (f"{TARGETS}prompt_lenght: 3\n", "line 3: prompt_lenght: no such setting; did you mean prompt_length? allowed"),
        (f"{TARGETS}3: 4\n", "line 3: 3: no such setting; allowed here: budget_s"),
        (f'{TARGETS}"\\e[31mred": 4\n', "line 3: \\x1b[31mred: no such setting"),
        ("model: {nam: tiny}\ntargets: [cat]\n", "line 1: model.nam: no such setting; did you mean name?"),
        (f"{TARGETS}optimizers:\n  - name: arca\n    n_sweep: 3\n", "line 5: optimizers.arca.n_sweep: no such setting"),
        (f"{TARGETS}optimizers: {{name: gbda, n_sweeps: 3}}\n", "optimizers.gbda.n_sweeps: no such setting; did you"),
        (f"{TARGETS}judges:\n  - detector: profanity\n    on: x\n", "line 5: judges.on: no such setting; allowed here"),
        (f"{TARGETS}objective:\n  - term: naturalness\n    wieght: 3\n", "line 5: objective.naturalness.wieght: no su"),
        (f"{TARGETS}objective: [{{term: second-model, model: {{nme: x}}}}]\n", "objective.second-model.model.nme: no"),
        ("targets: [cat]\n", "line 1: model: is needed; add it"),
        (f"{TARGETS}objective:\n  - term: naturalness\n", "line 4: objective.naturalness.weight: is needed"),
        # names
        (
            f"{TARGETS}objective:\n  - term: naturality\n",
            "line 4: objective: no such term as 'naturality'; did you mea",
        ),
        (f"{TARGETS}objective:\n  - weight: 3\n", "line 4: objective: expected an entry with 'term: ' and one of"),
        (f"{TARGETS}objective: naturalness\n", "line 3: objective: expected an entry with 'term: '"),
        (f"{TARGETS}optimizers: [arcca]\n", "line 3: optimizers: no such optimiser as 'arcca'; did you mean arca?"),
        (f"{TARGETS}optimizers: [3]\n", "line 3: optimizers: expected an entry with 'name: '"),
        (f"{TARGETS}\njudges: [profanty]\n", "line 4: judges.detector: no detector 'profanty'"),
        (
            f"{JOINT}objective:\n  - term: class\n    side: output\n    is: toxik\n",
            "line 6: objective.class.is: no class",
        ),
        (
            f"{JOINT}objective:\n  - {{term: class, side: output, is: toxic, source: toxblok}}\n",
            "objective.class.source",
        ),
        (
            f"{JOINT}objective:\n  - {{term: class, side: input, is: toxic}}\n",
            "objective.class.side: expected 'prompt'",
        ),
        (
            f"{TARGETS}only: [numbers]\n",
            "line 3: only: expected 'lowercase', 'letters', 'ascii' or 'words', got 'numbers'",
        ),
        (f"{TARGETS}overlap: some\n", "overlap: expected 'words', 'literal' or 'off'"),
        # types
        ("model: tiny\ntargets: [cat, 123]\n", "line 2: targets: expected a text, got 123; write it in quotes"),
        (
            "model: tiny\ntargets:\n  - cat\n  - true\n",
            "line 4: targets: expected a text, got True; write it in quotes",
        ),
        ("model: tiny\ntargets: {cat: the}\n", "line 2: targets: expected a text"),
        ("model: 5\ntargets: [cat]\n", "line 1: model: expected settings such as 'name: …', got 5"),
        (f"{TARGETS}chat: yes\n", "line 3: chat: expected true or false, got 'yes'"),
        (f"{TARGETS}chat: 1\n", "line 3: chat: expected true or false, got 1"),
        (f"{TARGETS}prompt_length: '3'\n", "line 3: prompt_length: expected a number, got '3'"),
        (f"{TARGETS}prompt_length: true\n", "line 3: prompt_length: expected a number of tokens from 1 to"),
        (f"{TARGETS}prompt_length: [2, '3']\n", "line 3: prompt_length: expected a number, got '3'"),
        (f"{TARGETS}prompt_length: 3.5\n", "or a range such as 1..8, got 3.5"),
        (f"{TARGETS}prompt_length: 8..1\n", "line 3: prompt_length: expected a range such as 1..8, the shorter length"),
        (f"{TARGETS}prefix: 3\n", "line 3: prefix: expected a text, got 3; write it in quotes"),
        (f"{TARGETS}prefix:\n", "line 3: prefix: expected a text, got None"),
        (f"{TARGETS}judges: 5\n", "line 3: judges: expected a list, got 5"),
        (
            f"{TARGETS}objective: [{{term: naturalness, weight: '1'}}]\n",
            "line 3: objective.weight: expected a number, got",
        ),
        (f"{TARGETS}optimizers: [{{name: arca, autoregressive: no}}]\n", "autoregressive: expected true or false"),
        # lists
        ("model: [tiny, other]\ntargets: [cat]\n", "line 1: model: expected one value, got a list"),
        ("model: {name: [tiny]}\ntargets: [cat]\n", "line 1: model.name: expected a text"),
        (f"{TARGETS}prompt_length: []\n", "line 3: prompt_length: expected one value or a list of values"),
        (f"{TARGETS}prompt_length: [2, 2]\n", "line 3: prompt_length: 2 is listed 2 times"),
        (f"{TARGETS}optimizers: []\n", "line 3: optimizers: expected a list with something in it"),
        (
            f"{TARGETS}objective:\n  - {{term: naturalness, weight: 1}}\n  - {{term: likelihood, weight: [1, 1]}}\n",
            "line 5: objective.weight: 1 is",
        ),
        (f"{TARGETS}objective: [{{term: [naturalness, likelihood], weight: 1}}]\n", "an entry for each term"),
        # values
        (f"{TARGETS}seeds: 0\n", "line 3: seeds: expected from 1 to 1,000,000"),
        (f"{TARGETS}seeds: 1000000000000\n", "line 3: seeds: expected from 1 to 1,000,000"),
        (f"{TARGETS}seeds: [-1]\n", "line 3: seeds: expected a number greater than or equal to 0"),
        (f"{TARGETS}seeds: [1, 1]\n", "line 3: seeds: each seed may be given once"),
        (f"{TARGETS}seeds: all\n", "line 3: seeds: expected a list, got 'all'"),
        (f"{TARGETS}budget_s: 0\n", "line 3: budget_s: expected a number above 0, got 0"),
        (f"{TARGETS}budget_s: 3m\n", "line 3: budget_s: expected a number above 0, got '3m'"),
        (f"{TARGETS}budget_s: .nan\n", "budget_s: expected a number above 0"),
        (f"{TARGETS}live: 1.5\n", "line 3: live: expected a whole number above 0"),
        *[
            (
                f"{JOINT}objective: [{{term: class, side: output, is: toxic, weight: {w}}}]\n",
                "line 3: objective.class.w",
            )
            for w in ("0", "-1", ".nan", ".inf", "1e9", "high")
        ],
        *[
            (f"{JOINT}objective: [{{term: class, side: output, is: toxic, threshold: {t}}}]\n", "objective.class.thres")
            for t in ("1.2", "-0.1", ".nan", "low")
        ],
        (
            f"{JOINT}objective: [{{term: likelihood, weight: 0}}]\n",
            "objective.likelihood.weight: expected a number gre",
        ),
        (f"{JOINT}objective: [{{term: class, side: output, is: ''}}]\n", "objective.class.is"),
        (f"{JOINT}objective: [{{term: class, side: output, is: toxic, per: median}}]\n", "expected 'sum' or 'mean'"),
        (f"{TARGETS}schema_version: 2\n", "line 3: schema_version: expected 1, got 2"),
        ("model: tiny\noutput_length: same-3\n", "line 2: output_length: same-3 of a prompt of 3 tokens is 0"),
        # together
        (f"{TARGETS}output_length: 2\n", "line 3: output_length: expected targets"),
        ("model: tiny\n", "got neither"),
        (f"{JOINT}optimizers: gbda\n", "line 3: optimizers: gbda cannot search the output"),
        (
            f"{TARGETS}objective: [{{term: class, side: output, is: toxic}}]\n",
            "line 3: objective: a condition on the out",
        ),
        (f"{TARGETS}optimizers: [arca, arca]\n", "line 3: optimizers: each optimiser may be given once"),
        (f"{TARGETS}targets_file: x.txt\n", "line 3: targets_file: give targets or targets_file"),
        ("model: tiny\ntargets_file: x.txt\n", "line 2: targets_file: cannot read"),
        ("model: tiny\ntargets_file: 3\n", "line 2: targets_file: expected the name of a file"),
        ("model: tiny\ntargets_file: ~nobody-at-all/x.txt\n", "line 2: targets_file: "),
        (b"model: tiny\ntargets: [caf\xe9]\n", "is not UTF-8 (byte 25)"),
        ("model: tiny\ntargets: [' ']\n", "something to see"),
    ],
)
def test_what_is_wrong_is_told_with_file_line_field_and_what_is_allowed(tmp_path, text, says):
    with pytest.raises(InputError) as error:
        read(tmp_path, text, "my audit.yaml")
    assert says in str(error.value)
    assert "my audit.yaml" in str(error.value)
    assert "\n" not in str(error.value)
    assert "Input should" not in str(error.value)


@pytest.mark.parametrize("name", ["", "nowhere.yaml", "with\0nul.yaml"])
def test_a_folder_or_no_file_is_told(tmp_path, name):
    with pytest.raises(InputError, match="cannot read"):
        read_audit(tmp_path / name)


def test_a_file_that_is_written_is_the_same_audits(tmp_path):
    text = "model: {name: tiny, dtype: bfloat16}\nprompt_length: [2, 3]\noutput_length: [same, same+1]\n"
    more = "prefix: ['', \"a\\x85b \\u2028'\"]\nonly: [[], [letters]]\njudges: {detector: profanity, text: whole}\n"
    terms = "objective:\n- {term: class, side: prompt, is: not toxic, weight: [1.5, 1e-5]}\n"
    terms += "- {term: naturalness, weight: 0}\n"
    plan = read(tmp_path, text + more + terms).plan
    again = read(tmp_path, written_audit(plan.fields, [])).plan
    assert again.cells == plan.cells
    assert again.fields == plan.fields


def test_what_was_left_open_is_filled_in_where_all_audits_agree(tmp_path):
    text = f"{JOINT}objective: [{{term: class, side: output, is: toxic, source: [toxblock, words]}}]\n"
    fields = read(tmp_path, text).plan.fields
    table = {"term": "output is toxic", "require": "some", "threshold": 0.5}
    tables = [{**table, "source": "toxblock", "weight": 2.0}, {**table, "source": "words", "weight": 3.0}]
    first = read(tmp_path, written_audit(fields, tables)).plan.cells[0].config.memberships[0]
    assert (first.require, first.threshold, first.weight, first.source) == ("some", 0.5, None, "toxblock")
    tables = [{**table, "source": "toxblock", "weight": 2.0}]
    first = read(tmp_path, written_audit(fields, tables)).plan.cells[0].config.memberships[0]
    assert first.weight == 2.0


def test_another_model_may_be_audited_with_the_same_file(tmp_path):
    found = read(tmp_path, "model: {name: tiny, dtype: bfloat16, revision: main}\ntargets: [cat]\n", model="other")
    assert (found.plan.model.name, found.plan.model.dtype, found.plan.model.revision) == ("other", "bfloat16", None)


def test_the_file_of_the_guide_is_one(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "audits.md").read_text()
    (text,) = re.findall(r"```yaml audit.yaml\n(.*?)```", page, re.DOTALL)
    found = read(tmp_path, text)
    assert (len(found.plan.cells), found.plan.n_searches, dict(found.limits)) == (4, 40, {"budget_s": 3600})


@pytest.mark.parametrize("kind", [AuditConfig, Judge, Membership, *OPTIMIZERS.values()])
def test_the_guide_names_every_key(kind):
    page = (Path(__file__).parent.parent / "docs" / "audits.md").read_text()
    hidden = {"schema_version", "kind"}
    names = {field.alias or name for name, field in kind.model_fields.items()} - hidden
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()
