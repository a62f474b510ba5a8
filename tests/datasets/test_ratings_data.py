"""Tables of ratings: the generator's law, and MovieLens on files made here."""

import hashlib
import os
import urllib.request
import zipfile

import numpy as np
import pandas as pd
import pytest

from skdpspectral import datasets as movielens
from skdpspectral.datasets import fetch_movielens, make_ratings

# --- make_ratings: the table


def small(**options):
    return make_ratings(**{"n_users": 300, "n_items": 60, "random_state": 0, **options})


def test_the_table():
    ratings = small()
    users, items = ratings.data.T
    assert ratings.data.dtype == ratings.target.dtype == np.int64
    assert (np.unique(users) == np.arange(1, 301)).all()
    assert ratings.item_ids.tolist() == list(range(1, 61))
    assert np.isin(items, ratings.item_ids).all()
    assert len(np.unique(ratings.data, axis=0)) == len(users)
    assert ratings.rating_range == (1, 5)
    assert (ratings.target.min(), ratings.target.max()) == (1, 5)
    assert ratings.item_features.shape == (60, 10)
    assert np.abs(ratings.item_features).max() <= 1.0
    assert ratings.feature_names == ["user_id", "item_id"]
    assert ratings.target_names == ["rating"]
    assert len(ratings.item_feature_names) == 10
    assert ratings.frame is None
    assert "Draw a table of ratings" in ratings.DESCR
    assert (np.diff(users) < 0).any()  # in random order


def test_frames():
    arrays, frames = small(), small(as_frame=True)
    assert list(frames.frame.columns) == ["user_id", "item_id", "rating"]
    np.testing.assert_array_equal(frames.data.to_numpy(), arrays.data)
    np.testing.assert_array_equal(frames.target.to_numpy(), arrays.target)
    assert isinstance(frames.target, pd.Series)
    features = frames.item_features
    assert features.index.name == "item_id"
    np.testing.assert_array_equal(features.index, arrays.item_ids)
    np.testing.assert_array_equal(features.to_numpy(), arrays.item_features)


def test_seeds_repeat():
    expected = small()
    generator = np.random.RandomState(0)
    first, second = small(random_state=generator), small(random_state=generator)
    assert second.data.shape != expected.data.shape
    np.testing.assert_array_equal(first.data, expected.data)
    np.testing.assert_array_equal(first.target, expected.target)


# --- MovieLens: files made here


def zip_100k():
    """The format of ml-100k: three users, three movies, one title in latin-1."""
    genre_columns = [[0] * 19 for _ in range(3)]
    genre_columns[0][0] = 1  # unknown
    genre_columns[1][3] = genre_columns[1][5] = 1  # Animation, Comedy
    genre_columns[2][18] = 1  # Western
    titles = [
        "unknown",
        "Les mis\xe9rables (1995)",
        "Land III: The Gift\x85 (1935) (V)",
    ]
    items = "".join(
        f"{i}|{title}|01-Jan-1995||http://x/?{title}|{'|'.join(map(str, genres))}\n"
        for i, (title, genres) in enumerate(
            zip(titles, genre_columns, strict=True), start=1
        )
    )
    return {
        "u.data": "7\t2\t5\t881250949\n7\t1\t3\t891717742\n9\t3\t1\t878887116\n",
        "u.user": "7|24|M|technician|85711\n8|53|F|other|T8H1N\n9|7|M|student|0\n",
        "u.item": items,
    }


def zip_1m():
    """The format of ml-1m: two users, three movies."""
    return {
        "ratings.dat": "1::1193::5::978300760\n1::3952::3::978302109\n2::1::4::9\n",
        "users.dat": "1::F::1::10::48067\n2::M::56::16::70072-1234\n",
        "movies.dat": "1::Toy Story (1995)::Animation|Children's|Comedy\n"
        "1193::One Flew (Over) the Cuckoo's Nest (1975)::Drama\n"
        "3952::Contender, \xc9l (2000)::Drama|Thriller\n",
    }


FILES = {"ml-100k": zip_100k, "ml-1m": zip_1m}
VARIANTS = list(FILES)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder, and no other folder to look in."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))
    monkeypatch.setattr(movielens, "URL", "file://localhost/absent/{variant}.zip")
    return tmp_path


def write_zip(folder, variant, monkeypatch, change=()):
    """Write a zip and take its checksum for the published one."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{variant}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**FILES[variant](), **dict(change)}.items():
            if text is not None:
                archive.writestr(f"{variant}/{name}", text.encode("latin-1"))
    trust(path, variant, monkeypatch)
    return path


def trust(path, variant, monkeypatch):
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(movielens.CHECKSUMS, variant, checksum)


def test_zip_of_100k(home, monkeypatch):
    write_zip(home, "ml-100k", monkeypatch)
    bunch = fetch_movielens("ml-100k", data_home=home)
    assert bunch.data.tolist() == [[7, 2], [7, 1], [9, 3]]
    assert bunch.target.tolist() == [5, 3, 1]
    assert bunch.data.dtype == bunch.target.dtype == np.int64
    assert bunch.rating_range == (1, 5)
    assert bunch.item_ids.tolist() == bunch.movies.item_id.tolist() == [1, 2, 3]
    assert bunch.movies.title[1] == "Les mis\xe9rables (1995)"
    assert bunch.movies.title[2].endswith("Gift\x85 (1935) (V)")
    assert bunch.movies.year.tolist() == [0, 1995, 1935]
    assert bunch.users.user_id.tolist() == [7, 8, 9]
    assert bunch.users.gender.tolist() == ["M", "F", "M"]
    assert bunch.users.age.tolist() == [24, 53, 7]
    assert bunch.users.occupation.tolist() == ["technician", "other", "student"]
    assert "zip" not in " ".join(bunch.users).lower()
    names = bunch.item_feature_names
    assert len(names) == bunch.item_features.shape[1] == 20
    shown = [{names[j]: row[j] for j in np.flatnonzero(row)} for row in
             bunch.item_features]  # fmt: skip
    assert shown == [
        {"unknown": 1.0, "year": 0.5},
        {"Animation": 1.0, "Comedy": 1.0, "year": 0.95},
        {"Western": 1.0, "year": 0.35},
    ]
    assert "Private" in bunch.DESCR


def test_zip_of_1m(home, monkeypatch):
    write_zip(home, "ml-1m", monkeypatch)
    bunch = fetch_movielens("ml-1m", data_home=str(home))
    assert bunch.data.tolist() == [[1, 1193], [1, 3952], [2, 1]]
    assert bunch.target.tolist() == [5, 3, 4]
    assert bunch.item_ids.tolist() == [1, 1193, 3952]
    assert bunch.movies.title[2] == "Contender, \xc9l (2000)"
    assert bunch.movies.year.tolist() == [1995, 1975, 2000]
    assert bunch.users.age.tolist() == [1, 56]
    assert bunch.users.gender.tolist() == ["F", "M"]
    assert bunch.users.occupation.tolist() == [10, 16]
    names = bunch.item_feature_names
    assert len(names) == bunch.item_features.shape[1] == 19
    genres = [[names[j] for j in np.flatnonzero(row[:-1])] for row in
              bunch.item_features]  # fmt: skip
    assert genres == [
        ["Animation", "Children's", "Comedy"],
        ["Drama"],
        ["Drama", "Thriller"],
    ]
    np.testing.assert_allclose(bunch.item_features[:, -1], [0.95, 0.75, 1.0])


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name in expected:
        if isinstance(expected[name], dict):
            assert_same(found[name], expected[name])
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
            kind = getattr(expected[name], "dtype", None)
            assert getattr(found[name], "dtype", None) == kind, name


# --- MovieLens: where files are sought


def test_nothing_is_downloaded_unasked(home, monkeypatch):
    def no_network(*args, **kwargs):
        raise AssertionError("a download")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    for options in ({}, {"data_home": home}, {"data_home": home / "absent"}):
        with pytest.raises(FileNotFoundError) as caught:
            fetch_movielens("ml-1m", **options)
        message = str(caught.value)
        for remedy in ("download_if_missing=True", "data_home"):
            assert remedy in message
    assert not (home / "absent").exists()
    with pytest.raises(AssertionError, match="a download"):
        fetch_movielens("ml-1m", download_if_missing=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_downloads_once_into_the_folder(variant, home, monkeypatch):
    server = write_zip(home / "server", variant, monkeypatch)
    monkeypatch.setattr(
        movielens, "URL", f"file://localhost{home}/server/{{variant}}.zip"
    )
    for options, folder in (
        ({"data_home": home / "new" / "folder"}, home / "new" / "folder"),
        ({}, home / "sklearn"),
    ):
        bunch = fetch_movielens(variant, download_if_missing=True, **options)
        assert len(bunch.target) == 3
        assert os.listdir(folder) == [f"{variant}.zip"]
    server.unlink()
    assert_same(fetch_movielens(variant, download_if_missing=True), bunch)
    assert_same(fetch_movielens(variant), bunch)


def test_downloads_of_something_else_are_not_kept(home, monkeypatch):
    (home / "ml-1m.zip").write_bytes(b"<html>moved</html>")
    monkeypatch.setattr(movielens, "URL", f"file://localhost{home}/{{variant}}.zip")
    folder = home / "folder"
    with pytest.raises(OSError, match="SHA256 checksum"):
        fetch_movielens("ml-1m", data_home=folder, download_if_missing=True)
    assert os.listdir(folder) == []


# --- MovieLens: wrong files


def test_unknown_variants():
    for variant in ("ml-25m", "100k", None, ["ml-1m"]):
        with pytest.raises(ValueError, match=r"variant must be one of .*'ml-100k'"):
            fetch_movielens(variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_files_that_were_edited_are_refused(variant, home, monkeypatch):
    path = write_zip(home, variant, monkeypatch)
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"SHA-256 is .* should be .* fetch it again"):
        fetch_movielens(variant, data_home=home)
