"""Files are written whole, to wherever a person may point, and nothing that was there is harmed."""

import os
import threading

import pytest

from lmaudit.errors import InputError
from lmaudit.whole_file import check_target, telling, write_whole


def test_a_file_is_replaced_and_its_folder_made(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    for content in (b"one", b"two"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to("file")
    for content in (b"one", b"two"):  # at first there is nothing that it leads to
        write_whole(link, content)
        assert link.is_symlink()
        assert file.read_bytes() == content


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"said")
    reader.join(30)
    assert read == [b"said"]
    assert pipe.is_fifo()


def test_a_name_of_any_length_that_the_disk_bears_is_written(tmp_path):
    write_whole(tmp_path / ("é" * 127), b"x")
    with pytest.raises(InputError, match="too long"), telling(tmp_path):
        write_whole(tmp_path / ("é" * 200), b"x")
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("file/a.txt", "circle"):
        with pytest.raises(InputError, match="cannot write"), telling(tmp_path / name):
            write_whole(tmp_path / name, b"x")
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["", ".", "..", "folder"])
def test_a_folder_is_no_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        check_target(type(tmp_path)(name))
