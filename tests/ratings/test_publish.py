import csv
import json

import numpy as np
import pytest

from lmaudit.datasets import load_dataset
from lmaudit.datasets.rated import content_sha256
from lmaudit.errors import InputError
from lmaudit.ratings.agreement import agreement
from lmaudit.ratings.collected import Collected, Item
from lmaudit.ratings.publish import Stated, publish, write_published
from lmaudit.ratings.scores import score
from lmaudit.ratings.scores_file import read_scores, scored_texts, summary_path, write_scores
from lmaudit.ratings.summary import summary_of

HOSTILE = [
    "=1+1",
    "'quoted' from the start",
    "'=two of them",
    "''=three",
    "@name, -1 and +1",
    "-dash",
    "\ttab",
    "\rreturn",
    'a "quote", a comma\nand a line\r\nand another\r',
    "<script>alert(1)</script>",
    "| [red]pipe[/red] | `code`",
    " spaces ",
    "N/A",
    "\x00nul \x1b[31m \u202e right to left",
]


def scored_of(texts, category="Neutral", **more):
    values = np.random.default_rng(0).integers(0, 11, (3, len(texts))).astype(float)
    items = tuple(Item(f"id {t}", text, category, "filtered") for t, text in enumerate(texts))
    names = ("Secret Ann", "=Secret Bob", "Secret Cy")
    whole = Collected(names, ("Secret North",) * 3, items, values, np.full(values.shape, np.nan))
    return score(whole, **more)


def written(path, scored, question=None):
    write_scores(path, scored_texts(scored), summary_of(scored, agreement(scored, resamples=50), question))
    return path


def test_scores_come_back_from_their_file_with_every_text(tmp_path):
    scored = scored_of(HOSTILE)
    path = written(tmp_path / "s.csv", scored)
    read = read_scores(path)
    assert read.problems == ()
    assert read.texts == scored_texts(scored)
    assert read.summary["n_raters"] == 3


def test_no_cell_of_any_file_is_a_formula(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE, category="=cmd"))
    out = tmp_path / "b.csv"
    write_published(publish(read_scores(path), Stated(licence="=evil()")), out)
    for file in (path, out):
        with file.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert "'=1+1" in cells
        assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))]


def test_the_benchmark_reader_gets_scores_and_texts_without_options(tmp_path):
    scored = scored_of(HOSTILE)
    out = tmp_path / "b.csv"
    made = publish(read_scores(written(tmp_path / "s.csv", scored)), Stated(licence="CC-BY-4.0"))
    sheet = write_published(made, out)
    read = load_dataset(str(out))
    assert list(read.texts) == HOSTILE
    np.testing.assert_array_equal(read.human, scored.values)
    assert read.toxic.tolist() == (scored.values > 0.5).tolist()
    assert set(read.categories) == {"Neutral"}
    assert set(read.tags) == {"filtered"}
    assert (read.licence, read.labels_are) == ("CC-BY-4.0", "mean score of 3 raters > 0.5")
    assert "z-normalised per rater, mean over raters, mapped by range" in read.source
    assert (read.name, "NOT" in read.source) == ("b.csv", False)
    assert sheet == tmp_path / "b.md"
    assert made.sha256 == content_sha256(
        [(i.text, i.category, i.tag, repr(s)) for i, s in zip(scored.items, scored.values.tolist(), strict=True)]
    )


def test_a_file_of_scores_is_a_benchmark_too(tmp_path):
    scored = scored_of(HOSTILE)
    read = load_dataset(str(written(tmp_path / "s.csv", scored)))
    assert list(read.texts) == HOSTILE
    assert read.toxic.tolist() == (scored.values > 0.5).tolist()


def test_a_changed_benchmark_says_so(tmp_path):
    out = tmp_path / "b.csv"
    write_published(publish(read_scores(written(tmp_path / "s.csv", scored_of(HOSTILE)))), out)
    out.write_text(out.read_text(encoding="utf-8").replace("N/A", "n/a"), encoding="utf-8")
    read = load_dataset(str(out))
    assert read.name == "b.csv (changed)"
    assert "NOT as it was published" in read.source


def test_files_of_another_release_are_told(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    path.write_text(path.read_text(encoding="utf-8").replace("lmaudit-scores-1", "lmaudit-scores-9"), encoding="utf-8")
    for read in (read_scores, load_dataset):
        with pytest.raises(InputError, match="got 'lmaudit-scores-9'; another release"):
            read(path if read is read_scores else str(path))


def test_no_name_of_a_rater_or_group_is_in_what_is_passed_on(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    write_published(publish(read_scores(path)), tmp_path / "b.csv")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["b.csv", "b.md", "s.csv", "s.summary.json"]
    assert not [file for file in files if "Secret" in file.read_text(encoding="utf-8")]


def test_the_datasheet_tells_what_is_known_and_what_is_not(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE), question="How rude? 0: not, 10: very")
    sheet = publish(
        read_scores(path), Stated(licence="CC0-1.0", raters_are="three <b>colleagues</b> | unpaid")
    ).datasheet
    assert "| licence | CC0-1.0 |" in sheet
    assert r"three \<b\>colleagues\</b\> \| unpaid" in sheet
    assert "| question and scale | How rude? 0: not, 10: very |" in sheet
    assert "| motivation | not known: nobody has said so |" in sheet
    assert "| Neutral | filtered | 14 |" in sheet
    assert "Krippendorff's α (interval)" in sheet
    assert "| raters of a text | 3 to 3;" in sheet


def test_without_a_summary_nothing_is_claimed(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    summary_path(path).unlink()
    made = publish(read_scores(path))
    assert made.n_raters is None
    assert "Not known: the summary" in made.datasheet
    assert "scores of unknown making" in made.csv
    assert "none stated: without one" in made.datasheet


@pytest.mark.parametrize("content", ["", "[]", "{}", "no json", '{"scores_sha256": "of others"}', "[" * 100_000])
def test_a_summary_of_other_scores_does_not_count(tmp_path, content):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    summary_path(path).write_text(content, encoding="utf-8")
    assert read_scores(path).summary is None


KEYS = [*summary_of(scored_of(HOSTILE), agreement(scored_of(HOSTILE), resamples=50)), "scores_sha256"]


@pytest.mark.parametrize("name", [name for name in KEYS if name != "scores_sha256"])
@pytest.mark.parametrize("value", ["missing", "<b>ann</b>", -1, [["ann"]], {"ann": 1}, float("nan"), True])
def test_a_summary_that_was_edited_is_one_line(tmp_path, name, value):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    told = json.loads(summary_path(path).read_text(encoding="utf-8"))
    del told[name]
    if value != "missing":
        told[name] = value
    summary_path(path).write_text(json.dumps(told), encoding="utf-8")
    if (name, value) in ALLOWED:
        assert read_scores(path).summary[name] == value
        return
    with pytest.raises(InputError, match=r"s\.summary\.json is not as `lmaudit scores` wrote it: ") as raised:
        read_scores(path)
    assert len(str(raised.value).splitlines()) == 1


# What a rater was asked is free text, a seed any whole number, and a coefficient may be negative.
ALLOWED = [("question", "<b>ann</b>"), ("seed", -1), ("mean_spearman", -1), ("mean_consistency", -1)]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda told: told.update(ann="ann"), "ann: "),
        (lambda told: told["left_out"].append("ann rated nothing"), "left_out: "),
        (lambda told: told["categories"][0].update(mean="ann"), "categories.mean: "),
        (lambda told: told["categories"][0].pop("alpha"), "categories.alpha: "),
        (lambda told: told["alpha"].update(rater="ann"), "alpha.rater: "),
        (lambda told: told.update(mapping="rank"), "mapping_means: "),
        (lambda told: told.update(n_toxic=1000), "n_toxic <= "),
        (lambda told: told.update(threshold=0.4), "threshold: expected 0.5"),
    ],
)
def test_words_that_lmaudit_does_not_write_stay_out_of_what_is_published(tmp_path, edit, says):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    told = json.loads(summary_path(path).read_text(encoding="utf-8"))
    edit(told)
    summary_path(path).write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_scores(path)


def test_every_reason_for_leaving_a_rater_out_is_of_the_form(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 11, (5, 20)).astype(float)
    again = np.full(values.shape, np.nan)
    values[1], values[2, 2:], values[3] = np.nan, np.nan, 3
    again[4, :10] = 10 - values[4, :10]
    items = tuple(Item(str(t), f"text {t}") for t in range(20))
    scored = score(Collected(tuple("abcde"), ("",) * 5, items, values, again))
    assert len(scored.left_out) == 4
    assert len(read_scores(written(tmp_path / "s.csv", scored)).summary["left_out"]) == 4


def test_a_score_that_was_edited_loses_its_summary(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    first = json.dumps(read_scores(path).texts[0].score)
    path.write_text(path.read_text(encoding="utf-8").replace(f'"{first}"', '"0.123"', 1), encoding="utf-8")
    assert read_scores(path).summary is None


def test_texts_without_a_score_are_left_out_and_counted(tmp_path):
    values = np.array([[0, 1, 5, 9, 10, np.nan], [0, 2, 5, 8, 10, np.nan]])
    items = tuple(Item(str(t), f"text {t}") for t in range(6))
    scored = score(Collected(("a", "b"), ("", ""), items, values, np.full(values.shape, np.nan)))
    made = publish(read_scores(written(tmp_path / "s.csv", scored)))
    assert (made.n, made.n_left_out) == (5, 1)
    assert "1 texts without a score are left out" in made.datasheet
    write_published(made, tmp_path / "b.csv")
    read = load_dataset(str(tmp_path / "b.csv"))
    assert (len(read), read.categories, read.tags, read.problems) == (5, None, None, ())


def test_bad_rows_are_named(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(["one", "two", "three", "four", "five"]))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].replace(lines[1].split(",")[4], '"1.5"')
    lines[2] = lines[2].replace('"two"', '" "')
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_scores(path).problems == (
        "line 2: score: expected a number from 0 to 1, or nothing; got '1.5'",
        "line 3: no text",
    )


def test_files_that_are_there_stay_as_they_are(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    made = publish(read_scores(path))
    (tmp_path / "b.md").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"b\.md is there already; choose another --out, or say --replace"):
        write_published(made, tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()
    write_published(made, tmp_path / "b.csv", replace=True)
    assert (tmp_path / "b.md").read_text(encoding="utf-8").startswith("# Datasheet")


def test_wrong_files_and_endings_are_told(tmp_path):
    path = written(tmp_path / "s.csv", scored_of(HOSTILE))
    made = publish(read_scores(path))
    with pytest.raises(InputError, match=r"expected a file ending in \.csv"):
        write_published(made, tmp_path / "b.txt")
    with pytest.raises(InputError, match="cannot write"):
        write_published(made, tmp_path / "nowhere" / "b.csv")
    write_published(made, tmp_path / "b.csv")
    with pytest.raises(InputError, match="is published already"):
        read_scores(tmp_path / "b.csv")
    (tmp_path / "own.csv").write_text("text,score\na,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="expected a column 'schema_version'"):
        read_scores(tmp_path / "own.csv")
    with pytest.raises(InputError, match="title: expected words, got none"):
        Stated(title=" ")
