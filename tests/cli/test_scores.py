import json

import pytest

from lmaudit.datasets import load_dataset
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.collected import Item
from lmaudit.ratings.event import Event


@pytest.fixture
def ratings(tmp_path):
    """Six texts; cy alone finds the last one toxic, dee gives one value to everything."""
    rows = {"ann": [0, 1, 10, 9, 2, 0], "bob": [0, 2, 10, 8, 3, 1], "cy": [0, 0, 10, 10, 1, 10], "dee": [4] * 6}
    texts = ["fine", "=nice", "you fool", "awful you", "hello", "darn [red]thing"]
    lines = ["rater,text,rating,group"]
    for rater, given in rows.items():
        group = "south" if rater == "cy" else "north"
        lines += [f"{rater},{text},{value},{group}" for text, value in zip(texts, given, strict=True)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_scores_are_written_and_agreement_is_printed(run, ratings, tmp_path):
    out = tmp_path / "scores.csv"
    code, shown, err = run("scores", ratings, "--out", out)
    assert code == 0
    assert "6 with a score" in shown
    assert "3 count, 1 left out" in shown
    assert "Krippendorff's α (interval)" in shown
    assert "notice: left out dee: gave 4 to everything (6 texts)" in err
    assert f"wrote 6 texts to {out}, and a summary beside them" in err
    assert out.read_text(encoding="utf-8").splitlines()[2].startswith('"text-2","\'=nice"')
    assert "ann" not in (tmp_path / "scores.summary.json").read_text(encoding="utf-8")


def test_texts_are_masked_until_asked_for(run, ratings):
    for report in ("agreement", "minority"):
        shown = run("scores", ratings, "--report", report)[1]
        assert "d··· [r··]t····" in shown
        assert "darn" not in shown
        assert '"darn [red]thing"' in run("scores", ratings, "--report", report, "--unmask")[1]
    told = json.loads(run("scores", ratings, "--json")[1])
    assert (told["masked"], told["texts"][5]["text"]) == (True, "d··· [r··]t····")
    told = json.loads(run("scores", ratings, "--json", "--unmask")[1])
    assert (told["masked"], told["texts"][1]["text"]) == (False, "=nice")


def test_minority_views(run, ratings):
    shown = run("scores", ratings, "--report", "minority")[1]
    assert "Some raters find 1 texts toxic whose score is not" in shown
    assert "1 of 3" in shown
    assert "Group 'north' finds 0 texts toxic" in run("scores", ratings, "--report", "minority", "--group", "north")[1]
    code, _, err = run("scores", ratings, "--report", "minority", "--group", "west")
    assert (code, err.splitlines()[-1]) == (2, "error: no rater who counts is of group 'west'; there are north, south")
    code, _, err = run("scores", ratings, "--group", "south")
    assert (code, "say --report minority" in err) == (2, True)


def test_json_has_everything(run, ratings):
    told = json.loads(run("scores", ratings, "--json", "--mapping", "cdf", "--resamples", 100, "--top", 1)[1])
    assert (told["mapping"], told["resamples"], told["n_raters"], told["n_texts"]) == ("cdf", 100, 3, 6)
    assert told["left_out"] == [{"rater": "dee", "reason": "gave 4 to everything (6 texts)"}]
    assert [one["id"] for one in told["disputed"]] == ["text-6"]
    assert told["disputed"][0]["ratings"] == {"ann": 0, "bob": 1, "cy": 10}
    assert [one["id"] for one in told["minority"]] == ["text-6"]
    assert len(told["pairs"]) == 3
    assert set(told["raters"]) == {"ann", "bob", "cy"}


def test_the_same_command_gives_the_same_result(run, ratings):
    assert run("scores", ratings, "--json") == run("scores", ratings, "--json")
    assert run("scores", ratings, "--json", "--seed", 1) != run("scores", ratings, "--json")


def test_files_that_are_there_stay(run, ratings, tmp_path):
    out = tmp_path / "scores.csv"
    run("scores", ratings, "--out", out, "--resamples", 0)
    before = out.read_bytes()
    code, _, err = run("scores", ratings, "--out", out)
    assert (code, out.read_bytes()) == (2, before)
    assert "is there already; choose another --out, or say --replace" in err
    assert run("scores", ratings, "--out", out, "--replace")[0] == 0
    assert out.read_bytes() != before


def test_bad_input_is_one_line(run, ratings, tmp_path):
    assert run("scores", tmp_path / "none.db")[0] == 2
    code, _, err = run("scores", ratings, "--out", "scores.txt")
    assert (code, err) == (2, "error: --out: expected a file ending in .csv, got scores.txt; give it that ending\n")
    one = tmp_path / "one.csv"
    one.write_text("rater,text,rating\nann,a,3\nann,b,3\nann,c,bad\n", encoding="utf-8")
    code, _, err = run("scores", one)
    assert code == 2
    assert err.splitlines() == [
        "notice: left out line 4: expected a number as rating, or nothing; got 'bad'",
        "error: nobody is left whose ratings could make a score (ann: rated 2 texts, fewer than 5); collect more, or "
        "loosen the rules",
    ]


def test_narrow_terminals_get_everything(run, ratings):
    shown = run("scores", ratings, width=40)[1]
    assert "Krippendorff's α" in shown
    assert max(map(len, shown.splitlines())) <= 90


def test_a_database_that_nobody_rated_in_is_told(run, tmp_path):
    path = tmp_path / "r.db"
    with RatingBook.create(path, [Item("a", "one"), Item("b", "two")]) as book:
        book.add_rater("ann")
    code, _, err = run("scores", path)
    assert (code, "ann: rated nothing" in err) == (2, True)


def test_from_a_database_to_a_benchmark(run, tmp_path):
    path, out = tmp_path / "r.db", tmp_path / "scores.csv"
    texts = [Item(f"i{t}", f"=text {t}", "Rude" if t > 4 else "Kind") for t in range(10)]
    with RatingBook.create(path, texts) as book:
        for name in ("Secret Ann", "Secret Bob", "Secret Cy"):
            book.add_rater(name)
        events = [
            (rater, Event(id=f"{place:032x}", place=place, kind="rating", value=item + (item < 9) * rater.number % 2))
            for rater in book.raters()
            for place, item in enumerate(book.order(rater))
        ]
        assert set(book.add_events(events)) == {""}
    code, shown, err = run("scores", path, "--out", out, "--unmask")
    assert (code, "left out" in err) == (0, False)
    assert "10 with a score" in shown
    assert run("publish", out, "--out", tmp_path / "b.csv", "--licence", "CC0-1.0")[0] == 0
    read = load_dataset(str(tmp_path / "b.csv"))
    assert read.texts == tuple(item.text for item in texts)
    assert read.toxic.tolist() == [t > 4 for t in range(10)]
    sheet = (tmp_path / "b.md").read_text(encoding="utf-8")
    assert (
        "| question and scale | How likely is this comment to make a user leave the discussion? 0: not at all" in sheet
    )
    assert not [file for file in tmp_path.glob("*.[cmj]*") if "Secret" in file.read_text(encoding="utf-8")]
