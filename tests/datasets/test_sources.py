"""The named benchmarks: what they hold, and how their files are fetched."""

import hashlib
import http.server
import threading

import pytest

from lmaudit.datasets import PUBLIC, load_dataset
from lmaudit.errors import FetchError, InputError
from lmaudit.published import PublishedFile, fetch_published
from paths import DATA, needs_data


@needs_data
def test_sass_is_what_the_paper_describes():
    data = load_dataset("sass", data=DATA / "sass")
    assert len(data) == 250
    assert round(float(data.toxic.mean()), 3) == 0.724
    assert data.licence == "none stated"
    assert "NOT" not in data.source
    assert {data.categories.count(c) for c in set(data.categories)} == {25}
    assert {t: data.tags.count(t) for t in set(data.tags)} == {"filtered": 150, "unfiltered": 100}
    assert data.problems == ()


@needs_data
def test_hatecheck_is_what_its_paper_describes():
    data = load_dataset("hatecheck", data=DATA / "hatecheck")
    assert len(data) == 3728
    assert int(data.toxic.sum()) == 2563
    assert len(set(data.categories)) == 29
    assert data.licence == "CC-BY-4.0"


def test_a_folder_without_the_file_says_where_to_get_it(tmp_path):
    with pytest.raises(InputError, match=r"norm_human_toxicity_scores.csv of sass in .*get it at https://"):
        load_dataset("sass", data=tmp_path)


def test_a_changed_file_is_read_and_called_changed(tmp_path):
    (tmp_path / "norm_human_toxicity_scores.csv").write_text("toxicity,category,tag,text\n0.9,A,x,hello\n")
    changed = load_dataset("sass", data=tmp_path)
    assert "NOT the published file" in changed.source
    assert changed.name == "sass (changed)"


def test_tweeteval_takes_two_files(tmp_path):
    (tmp_path / "test_text.txt").write_text("one tweet\nanother, with words\n")
    (tmp_path / "test_labels.txt").write_text("1\n0\n")
    data = load_dataset("tweeteval-hate", data=tmp_path)
    assert data.texts == ("one tweet", "another, with words")
    assert data.toxic.tolist() == [True, False]
    (tmp_path / "test_text.txt").write_bytes(b"caf\xe9\nb\n")
    with pytest.raises(InputError, match="not UTF-8"):
        load_dataset("tweeteval-hate", data=tmp_path)
    (tmp_path / "test_text.txt").write_text("one tweet\nanother, with words\n")
    (tmp_path / "test_labels.txt").write_text("1\n")
    with pytest.raises(InputError, match="as many labels as texts"):
        load_dataset("tweeteval-hate", data=tmp_path)


def test_every_public_file_is_pinned():
    for benchmark in PUBLIC.values():
        for file in benchmark.files:
            assert file.url.startswith("https://")
            assert len(file.sha256) == 64
            assert file.licence


@pytest.fixture
def server():
    content = b"toxicity,category,tag,text\n0.9,A,x,hello\n"

    class Handler(http.server.BaseHTTPRequestHandler):
        n_requests = 0

        def do_GET(self):
            type(self).n_requests += 1
            found = self.path == "/file.csv"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(content if found else b"nothing")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", content, Handler
        running.shutdown()


def test_a_published_file_is_fetched_once_and_checked(server, tmp_path):
    address, content, handler = server
    file = PublishedFile(f"{address}/file.csv", hashlib.sha256(content).hexdigest(), 1000, "none")
    first = fetch_published(file, tmp_path)
    assert first.read_bytes() == content
    assert fetch_published(file, tmp_path) == first
    assert handler.n_requests == 1
    assert [path.name for path in (tmp_path / "files").iterdir() if path.suffix == ".csv"] == [first.name]


@pytest.mark.parametrize(
    ("path", "size", "says"), [("/file.csv", 1000, "with SHA-256"), ("/none", 1000, "404"), ("/file.csv", 5, "SHA-256")]
)
def test_another_file_or_none_is_told_with_a_way_out(server, tmp_path, path, size, says):
    address, _, _ = server
    file = PublishedFile(address + path, "0" * 64, size, "none")
    with pytest.raises(FetchError, match=says) as told:
        fetch_published(file, tmp_path)
    assert "--data" in str(told.value)
    assert "\n" not in str(told.value)
    assert not list((tmp_path / "files").glob("0000*.csv"))


def test_no_network_is_told_with_a_way_out(tmp_path):
    file = PublishedFile("http://127.0.0.1:9/file.csv", "0" * 64, 10, "none")
    with pytest.raises(FetchError, match="--data"):
        fetch_published(file, tmp_path)
