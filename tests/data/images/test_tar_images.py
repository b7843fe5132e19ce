"""Tars of images, as webdataset writes them, and tars that nobody should have made."""

import io
import json
import os
import tarfile

import numpy as np
import pytest
from PIL import Image

from regard.base import tar_files
from regard.base.tar_files import Member, read_member, tar_members
from regard.data.images import tar_images
from regard.data.images.captions import open_caption_set
from regard.data.images.images import decode_image
from regard.data.images.labelled_images import open_image_set
from regard.errors import DataError


def encoded(shade: int, kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(shade).integers(0, 256, (6, 9, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def tar_of(path, members, format: int = tarfile.GNU_FORMAT):
    """`members`: names and bytes, or whole headers of what is no plain file."""
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def entry(name: str, type: bytes, **fields) -> tuple[str, tarfile.TarInfo]:
    info = tarfile.TarInfo(name)
    info.type = type
    for field, value in fields.items():
        setattr(info, field, value)
    return name, info


A, B = ("a.png", encoded(1)), ("b.png", encoded(2))
PAIR = [A, ("a.cls", b"1"), B, ("b.cls", b"0\n")]


def pixels(image_set) -> list[bytes]:
    return [image_set.read(row).tobytes() for row in range(len(image_set))]


# Labelled images


@pytest.mark.parametrize("kind", ["png", "jpg", "jpeg", "webp", "PNG"])
@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_they_are_as_the_same_images_in_a_folder(tmp_path, kind, format):
    members = []
    for number in range(6):
        name, data = ("cat", "dog", "ant")[number % 3], encoded(number, {"jpg": "jpeg"}.get(kind, kind))
        (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name / f"{number}.{kind}").write_bytes(data)
        members += [(f"x/{'k' * 70}{number}.cls", name.encode()), (f"x/{'k' * 70}{number}.{kind}", data)]
    in_tar = open_image_set(tar_of(tmp_path / "set.tar", members, format))
    folder = open_image_set(tmp_path / "images")
    assert in_tar.classes == folder.classes == ("ant", "cat", "dog")
    order = np.argsort(in_tar.labels, kind="stable")
    assert in_tar.labels[order].tolist() == folder.labels.tolist()
    assert [pixels(in_tar)[row] for row in order] == pixels(folder)
    assert in_tar.name(0) == f"{tmp_path / 'set.tar'}, x/{'k' * 70}0.{kind}"


@pytest.mark.parametrize(
    ("labels", "classes", "wanted"),
    [
        ([("cls", b"10"), ("cls", b" 9\n")], ("9", "10"), [1, 0]),
        ([("cls", b"10"), ("cls", b"b")], ("10", "b"), [0, 1]),
        ([("json", b'{"label": 3}'), ("cls", b"3")], ("3",), [0, 0]),
        ([("json", b'{"labels": "x", "label2": 1}'), ("json", '{"labels": "é"}'.encode())], ("x", "é"), [0, 1]),
        ([("CLS", b"\xef\xbb\xbfx"), ("cls", b"x")], ("x",), [0, 0]),
        ([("cls", b"9" * 30), ("cls", b"9")], ("9", "9" * 30), [1, 0]),
    ],
)
def test_labels_are_numbers_or_names(tmp_path, labels, classes, wanted):
    members = [
        member
        for (kind, text), (name, data) in zip(labels, (A, B), strict=True)
        for member in ((name, data), (f"{name[0]}.{kind}", text))
    ]
    found = open_image_set(tar_of(tmp_path / "set.tar", members))
    assert (found.classes, found.labels.tolist()) == (classes, wanted)


def test_a_key_of_the_json_and_a_kind_of_image_may_be_named(tmp_path):
    other = encoded(7)
    path = tar_of(tmp_path / "set.tar", [A, ("a.seg.png", other), ("a.cls", b"0"), ("a.json", b'{"tone": "dark"}')])
    found = open_image_set(path, label="tone")
    assert (found.classes, pixels(found)) == (("dark",), [decode_image(io.BytesIO(A[1]), "a").tobytes()])
    assert pixels(open_image_set(path, image="seg.png")) == [decode_image(io.BytesIO(other), "a").tobytes()]


def test_several_by_numbers_and_by_a_pattern(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(8, 12):
        key = ("a", encoded(number))  # of the same name in every tar
        tar_of(f"train-{number:03}.tar", [(f"{key[0]}.png", key[1]), ("a.cls", str(number).encode())])
    found = open_image_set("train-{008..011}.tar")
    assert (found.classes, found.labels.tolist()) == (("8", "9", "10", "11"), [0, 1, 2, 3])
    assert pixels(found) == pixels(open_image_set("train-*.tar"))
    assert pixels(open_image_set("train-{009,011}.tar")) == [pixels(found)[1], pixels(found)[3]]
    with pytest.raises(DataError, match=r"train-\{008\.\.012\}\.tar: there is no file train-012\.tar"):
        open_image_set("train-{008..012}.tar")
    (tmp_path / "train-notes.txt").touch()
    with pytest.raises(DataError, match=r"train-notes\.txt is no \.tar.*narrow the pattern"):
        open_image_set("train-*")
    (tmp_path / "more.txt").touch()
    with pytest.raises(DataError, match=r"is 2 files, such as .*only tars may be several"):
        open_image_set("*.txt")


def test_an_image_is_read_when_it_is_asked_for(tmp_path):
    path = tar_of(tmp_path / "set.tar", PAIR)
    found = open_image_set(path)
    before = pixels(found)
    assert before[1] == pixels(found.subset([1]))[0]
    data = path.read_bytes()
    path.write_bytes(data.replace(A[1], b"\0" * len(A[1])))
    with pytest.raises(DataError, match=r"set\.tar, a\.png cannot be decoded .*data\.skip_broken=true leaves out"):
        found.read(0)
    assert pixels(found.subset([1])) == before[1:]
    os.truncate(path, 600)
    with pytest.raises(DataError, match="has become shorter"):
        found.read(1)


def test_what_is_no_image_and_no_label_is_left_alone(tmp_path):
    told: list[str] = []
    others = [entry("x", tarfile.DIRTYPE), ("README", b"x"), ("._a.png", b"x"), ("x/.b.cls", b"x"), ("a.npy", b"")]
    found = open_image_set(tar_of(tmp_path / "set.tar", others + PAIR), tell=told.append)
    assert (len(found), told) == (2, [])


def test_keys_without_image_or_label_are_told(tmp_path):
    told: list[str] = []
    path = tar_of(tmp_path / "set.tar", [*PAIR, ("c.png", A[1]), ("d.cls", b"1"), ("d.txt", b"1")])
    assert len(open_image_set(path, tell=told.append)) == 2
    assert told == [
        "2 of 4 keys left out, without an image (KEY.jpg, .jpeg, .png, .webp) and a label (KEY.cls, .json) with "
        f"the same KEY: '{path}, c', '{path}, d'"
    ]
    with pytest.raises(DataError, match=r"no key has an image .*KEY\.jpg, .* and a label .*there are .*, a'"):
        open_image_set(tar_of(tmp_path / "none.tar", [A]))
    with pytest.raises(DataError, match=r"no key has an image .*there are none"):
        open_image_set(tar_of(tmp_path / "empty.tar", []))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("cls", b"", r"a\.cls: the label is empty"),
        ("cls", b"\xff", r"a\.cls is not UTF-8"),
        ("cls", b"x\0", "holds a NUL"),
        ("cls", b"-1", "labels must be at least 0, got -1"),
        ("cls", b"x" * 3000, r"a\.cls has 3,000 bytes; at most 2,000"),
        ("json", b"{", r"a\.json is not JSON"),
        ("json", b"[" * 1900, r"a\.json is not JSON"),
        ("json", b"[1]", "must hold an object"),
        ("json", b'{"x": 1}', r"a\.json: no key 'label'; the object has 'x'"),
        ("json", b'{"label": true}', "'label' must be text"),
        ("json", b'{"label": 1.5}', "'label' must be text"),
        ("json", b'{"label": null}', "'label' must be text"),
    ],
)
def test_labels_that_are_none(tmp_path, monkeypatch, name, text, said):
    monkeypatch.setattr(tar_images, "LARGEST_TEXT", 2000)
    with pytest.raises(DataError, match=said):
        open_image_set(tar_of(tmp_path / "set.tar", [A, (f"a.{name}", text)]))


# Captions


def test_captions(tmp_path):
    members = [
        A, ("a.txt", b"a dog\r\n\n two dogs \n"), ("a.json", b'{"caption": "not this"}'),
        B, ("b.json", b'{"captions": ["a cat", "a caf\\u00e9"], "caption2": ""}'),
        ("c.webp", encoded(3, "webp")), ("c.json", b'{"caption": "one"}'),
    ]  # fmt: skip
    path = tar_of(tmp_path / "set.tar", members)
    found = open_caption_set(path)
    assert found.captions == [("a dog", "two dogs"), ("a cat", "a café"), ("one",)]
    for name, data in (A, B):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "set.tsv").write_text("a.png\ta dog\nb.png\ta cat\n")
    folder = open_caption_set(tmp_path / "set.tsv")
    assert pixels(found.images.subset([0, 1])) == pixels(folder.images)
    assert open_caption_set(tmp_path / "*.tar").captions == found.captions
    told: list[str] = []
    tar_of(path, members[:4] + members[5:])
    assert open_caption_set(path, caption="caption", tell=told.append).captions == [("not this",), ("one",)]
    assert told[0].startswith("1 of 3 keys left out, without an image (KEY.jpg, .jpeg, .png, .webp) and a caption")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("txt", b" \n", r"a\.txt: the caption is empty"),
        ("json", b'{"caption": []}', "the list under 'caption' is empty"),
        ("json", b'{"caption": [1]}', "'caption' must be text"),
        ("json", b'{"x": ""}', "no key 'caption'"),
    ],
)
def test_captions_that_are_none(tmp_path, name, text, said):
    path = tar_of(tmp_path / "set.tar", [A, (f"a.{name}", text)])
    with pytest.raises(DataError, match=said):
        open_caption_set(path)
    with pytest.raises(DataError, match=r"has its images in it: leave data\.images"):
        open_caption_set(path, images=tmp_path)


# Hostile ones


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (entry("c.png", tarfile.SYMTYPE, linkname="/etc/passwd"), r"c\.png is a link"),
        (entry("c.png", tarfile.LNKTYPE, linkname="a.png"), r"c\.png is a link"),
        (entry("c.png", tarfile.CHRTYPE), r"c\.png is a device"),
        (entry("c.png", tarfile.FIFOTYPE), r"c\.png is a device, a pipe"),
        (entry("c.png", b"Z"), r"c\.png is .*unknown type"),
        (entry("c.png", tarfile.REGTYPE, pax_headers={"GNU.sparse.size": "9999999", "GNU.sparse.map": "0,1"}),
         "is a sparse file"),
        (entry("c.png", tarfile.GNUTYPE_SPARSE), "damaged|sparse"),
        (entry("c.png", tarfile.REGTYPE, pax_headers={"x": "y" * 70_000}), "at most 65,536 are read"),
        (entry("c.png", tarfile.REGTYPE, pax_headers={"size": "-512"}), "declares -512 bytes|backwards"),
        (entry("c.png", tarfile.REGTYPE, pax_headers={"size": str(1 << 60)}), r"declares 1,152,921,504,606,"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [False, True])
def test_members_that_are_refused(tmp_path, member, said, first):
    members = [member, *PAIR] if first else [*PAIR, member]
    path = tar_of(tmp_path / "set.tar", members, tarfile.PAX_FORMAT)
    with pytest.raises(DataError, match=said):
        open_image_set(path)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../up", "/", "..", "a\x1b[31m\nb", "\udcff", "x" * 5000])
def test_names_are_never_paths(tmp_path, name):
    members = [(f"{name}.png", A[1]), (f"{name}.cls", b"x")]
    with tarfile.open(tmp_path / "set.tar", "w", errors="surrogateescape") as tar:
        for each, data in [*members, *PAIR]:
            info = tarfile.TarInfo(each)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    found = open_image_set(tmp_path / "set.tar")
    assert len(pixels(found)) == len(found) == (2 if name in ("/", "..") else 3)  # those have no key
    found.name(0).encode()
    assert os.listdir(tmp_path) == ["set.tar"]


@pytest.mark.parametrize("keep", [100, 511, 512, 600, 1024, 1100])
def test_a_tar_that_is_cut(tmp_path, keep):
    path = tar_of(tmp_path / "set.tar", PAIR)
    ends = [member.offset for member in tar_members(path)]
    for end in [keep, *(end + 1 for end in ends), *(end - 512 for end in ends[1:])]:
        path = tar_of(tmp_path / "set.tar", PAIR)
        os.truncate(path, end)
        with pytest.raises(DataError, match="truncated"):
            open_image_set(path)


def test_what_follows_the_end_is_not_lost_in_silence(tmp_path):
    path = tar_of(tmp_path / "set.tar", PAIR)
    data = path.read_bytes()
    path.write_bytes(data + data)
    with pytest.raises(DataError, match=r"after 4 members, .* each by itself"):
        open_image_set(path)
    place = next(member.offset for member in tar_members(tar_of(path, PAIR)) if member.name == "b.png") - 512
    path.write_bytes(data[:place] + b"x" + data[place + 1 :])
    with pytest.raises(DataError, match=f"after 2 members, at byte {place:,}"):
        open_image_set(path)


@pytest.mark.parametrize("how", ["", "gz", "xz", "bz2"])
def test_what_is_no_tar_or_compressed(tmp_path, how):
    path = tmp_path / "set.tar"
    with tarfile.open(path, f"w:{how}") as tar:
        tar.addfile(tarfile.TarInfo("a.png"))
    if how:
        with pytest.raises(DataError, match=r"compressed or not a \.tar"):
            open_image_set(path)
        with pytest.raises(DataError, match=r"is compressed, and a \.tar must not be: .*gunzip"):
            open_image_set(path.rename(tmp_path / f"set.tar.{how}"))
    for junk in (b"", b"\0" * 100, os.urandom(5000)):
        path.write_bytes(junk)
        with pytest.raises(DataError, match=r"set\.tar is damaged, truncated"):
            open_image_set(path)


def test_two_of_one_key_and_kind(tmp_path):
    for other in (A, ("a.jpg", A[1]), ("a.cls", b"2")):
        with pytest.raises(DataError, match=r"are two of one key and kind .*data\.image names one"):
            open_image_set(tar_of(tmp_path / "set.tar", [*PAIR, other]))
    assert len(open_image_set(tar_of(tmp_path / "set.tar", [*PAIR, ("a.jpg", A[1])]), image="png")) == 2


def test_limits(tmp_path, monkeypatch):
    path = tar_of(tmp_path / "set.tar", PAIR)
    monkeypatch.setattr(tar_images, "LARGEST_IMAGE", 10)
    with pytest.raises(DataError, match=r"a\.png has .* bytes; at most 10 are read; data\.skip_broken"):
        open_image_set(path).read(0)
    monkeypatch.setattr(tar_files, "MOST_MEMBERS", 3)
    with pytest.raises(DataError, match="more than 3 members; divide it"):
        open_image_set(path)


def test_a_chain_of_headers_ends(tmp_path):
    """Each says that another follows; tarfile calls itself for each."""
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    for count in (50, 5000):
        (tmp_path / "set.tar").write_bytes(header.tobuf() * count + b"\0" * 1024)
        with pytest.raises(DataError, match=r"set\.tar is damaged"):
            open_image_set(tmp_path / "set.tar")


def test_random_damage_is_a_data_error_or_harmless(tmp_path):
    data = tar_of(tmp_path / "set.tar", [*PAIR, ("n" * 200 + ".cls", b"1")], tarfile.PAX_FORMAT).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(data)
        for place in random.integers(0, len(data), 3):
            damaged[place] = random.integers(0, 256)
        start = 512 * int(random.integers(0, len(data) // 512))
        if random.random() < 0.5:  # a header whose checksum is right
            damaged[start + 124 : start + 136] = random.bytes(12)
            total = 256 + sum(damaged[start : start + 148]) + sum(damaged[start + 156 : start + 512])
            damaged[start + 148 : start + 156] = b"%06o\0 " % total
        (tmp_path / "set.tar").write_bytes(damaged)
        try:
            found = open_image_set(tmp_path / "set.tar")
            pixels(found)
        except DataError:
            pass


def test_a_member_by_its_place(tmp_path):
    path = tar_of(tmp_path / "set.tar", [("a.cls", b"1234")])
    assert list(tar_members(path)) == [Member("a.cls", 512, 4)]
    assert read_member(path, Member("a.cls", 512, 4), 4) == b"1234"


def test_an_index_in_json_is_told_as_a_key_without_an_image(tmp_path):
    told: list[str] = []
    path = tar_of(tmp_path / "set.tar", [("info.json", json.dumps({"n": 2}).encode()), *PAIR])
    assert len(open_image_set(path, tell=told.append)) == 2
    assert "info" in told[0]
