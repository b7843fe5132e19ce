"""Pictures recognised: of any size, mode and format, alone and together, and what was looked at in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from regard.attention import trace
from regard.data.artifacts import Artifacts, Pixels
from regard.data.images.images import read_image
from regard.data.made.shapes import shapes
from regard.errors import DataError, RunError
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import begin, save_weights
from regard.show import Overlay, patch_map, rollout
from regard.tasks.core.inputs import Failed, Images, Reading
from regard.tasks.core.table import load, load_as
from regard.tasks.recognise.run import Recogniser
from regard.tasks.shared.image_run import pixels_of
from regard.tasks.translate.run import Translator

CONFIG = ViTConfig(
    ("cat", "dog", "owl", "eel"), image_size=12, image_width=16, patch_size=4, dim=16, layers=3, heads=2
)
PIXELS = Pixels((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))


def model(**changes: Any) -> ViT:
    """Weights drawn so large that answers and looks differ from picture to picture."""
    torch.manual_seed(3)
    made = ViT(replace(CONFIG, **changes)).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            noise = torch.randn_like(weight)
            weight.copy_(
                1.5 * noise / weight[0].numel() ** 0.5 if weight.dim() > 1 else ("norm" in name) + 0.3 * noise
            )
    return made


@pytest.fixture(scope="module")
def eyes() -> Recogniser:
    return Recogniser(model(), PIXELS)


def picture(high: int = 12, wide: int = 16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(high, wide, 3), dtype=np.uint8)


def close(found: dict[str, float], wanted: dict[str, float]) -> None:
    assert list(found) == list(wanted)
    assert list(found.values()) == pytest.approx(list(wanted.values()), abs=1e-5)


# ---- answers


@torch.no_grad()
def test_an_answer_is_the_softmax_of_the_logits(eyes: Recogniser) -> None:
    one = picture()
    images = torch.from_numpy(one).permute(2, 0, 1)[None].float() / 255
    images = (images - torch.tensor(PIXELS.mean).view(3, 1, 1)) / torch.tensor(PIXELS.std).view(3, 1, 1)
    wanted = eyes.model(images)[0].softmax(-1)
    answer = eyes.recognise(one)
    assert (answer.name, len(answer.probabilities)) == ("image", 4)
    for label, share in answer.probabilities.items():
        assert share == pytest.approx(float(wanted[CONFIG.labels.index(label)]), abs=1e-6)
    shares = list(answer.probabilities.values())
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    assert answer.label == CONFIG.labels[int(wanted.argmax())]


def test_the_likeliest_few(eyes: Recogniser) -> None:
    every = eyes.recognise(picture(), top=99).probabilities
    assert len(every) == 4
    for top in (1, 2, 4):
        assert eyes.recognise(picture(), top=top).probabilities == dict(list(every.items())[:top])
    wrong: tuple[Any, ...] = (0, -1, 1.5, "2", None)
    for top in wrong:
        with pytest.raises(ValueError, match=f"top must be a whole number of at least 1, got {top!r}"):
            eyes.recognise(picture(), top=top)


def test_files_arrays_and_lists_of_both(eyes: Recogniser, tmp_path: Path) -> None:
    """More than go through the model at once, of many sizes: in their order, and each as it is alone."""
    arrays = [picture(3 + number % 7, 30 - number % 5, number) for number in range(35)]
    path = tmp_path / "a picture.png"
    Image.fromarray(arrays[1]).save(path)
    asked: list[Any] = [arrays[0], path, str(path), *arrays[1:]]
    answers = eyes.recognise(asked)
    assert [one.name for one in answers] == ["image", str(path), str(path), *["image"] * 34]
    for one, answer in zip(asked, answers, strict=True):
        close(answer.probabilities, eyes.recognise(one).probabilities)
    assert answers[1].probabilities == answers[2].probabilities
    assert len({tuple(one.probabilities.values()) for one in answers}) > 30
    assert eyes.recognise([]) == []
    lazy = eyes.answers(map(eyes.open, asked[:2]))
    assert next(lazy).name == "image"


@pytest.mark.parametrize(
    ("wrong", "came"),
    [
        (np.zeros((8,), np.uint8), r"uint8 \(8,\)"),
        (np.zeros((8, 0), np.uint8), r"uint8 \(8, 0\)"),
        (np.zeros((1, 8, 8, 3), np.uint8), r"uint8 \(1, 8, 8, 3\)"),
        (np.zeros((8, 8, 5), np.uint8), r"uint8 \(8, 8, 5\)"),
        (np.zeros((8, 8, 3), np.int64), r"int64 \(8, 8, 3\)"),
        (np.zeros((0, 8, 3), np.uint8), r"uint8 \(0, 8, 3\)"),
        ((1, 2), "tuple"),
        (None, "NoneType"),
    ],
    ids=["a line", "no columns", "a batch", "five colours", "int64", "nothing", "tuple", "None"],
)
def test_what_is_no_picture_is_refused(eyes: Recogniser, wrong: Any, came: str) -> None:
    words = rf"the name of a file, a PIL image, a numpy array \(height, width\) or .* from 0 to 1; .*got .*{came}"
    for asked in (wrong, [picture(), wrong]):
        with pytest.raises(ValueError, match=words):
            eyes.recognise(asked)


def test_a_picture_of_fractions_is_refused(eyes: Recogniser) -> None:
    with pytest.raises(ValueError, match=r"^the PIL image cannot be read: its pixels are fractions"):
        eyes.recognise(Image.new("F", (8, 8)))


def test_grey_models_and_those_of_other_channels() -> None:
    grey = Recogniser(model(channels=1), Pixels((0.5,), (0.25,)))
    one = picture(12, 16)
    shades = torch.from_numpy(np.array(Image.fromarray(one).convert("L"))).float()
    assert torch.equal(grey.read([one])[0, 0], (shades / 255 - 0.5) / 0.25)
    flat = np.repeat(np.arange(192, dtype=np.uint8).reshape(12, 16, 1), 3, 2)  # a grey picture keeps its shades
    assert torch.allclose(grey.read([flat])[0, 0], (torch.arange(192.0).view(12, 16) / 255 - 0.5) / 0.25)
    answer = grey.recognise(one)
    assert answer.overlay().image.shape == (12, 16, 3)
    odd = Recogniser(model(channels=2), Pixels((0.5,) * 2, (0.5,) * 2))
    for asked in (one, "none.png"):  # before any file is opened
        with pytest.raises(RunError, match=r"images are grey or .*: model\.channels must be 1 or 3, got 2"):
            odd.recognise(asked)


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_arrays(channels: int, tmp_path: Path) -> None:
    """With and without an axis of channels, from Python and from a file: the same answer, and a picture of it."""
    run = Recogniser(model(channels=channels), Pixels((0.4,) * channels, (0.2,) * channels))
    grey = picture(20, 30)[..., 0]
    path = saved(tmp_path / "grey.png", Image.fromarray(grey))
    answers = [run.recognise(one) for one in (grey, grey[..., None], grey[..., None].repeat(3, 2), path)]
    assert all(answer.probabilities == answers[0].probabilities for answer in answers)
    assert answers[0].overlay().image.shape == (20, 30, 3)


def test_pixels_that_do_not_fit_the_model() -> None:
    for wrong, words in (
        (Pixels(), "one number for each of 1 channels"),
        (Pixels((0.5,), (0.5,), shortest_edge=15), r"lie in \[16, 65536\] so that 12 x 16 .* got 15"),
    ):
        with pytest.raises(ValueError, match=words):
            Recogniser(model(channels=1), wrong)


def test_the_centre_of_a_picture_is_recognised_and_shown() -> None:
    """12 x 16 of 20 x 40 pixels, which the other half of the picture does not change."""
    run, whole = Recogniser(model(), replace(PIXELS, shortest_edge=20)), picture(40, 80)
    other = whole.copy()
    other[:, :20], other[:, -20:], other[:4], other[-4:] = 0, 255, 9, 99
    assert run.recognise(whole).probabilities == run.recognise(other).probabilities
    seen = run.recognise(whole).overlay()
    assert np.array_equal(seen.image, whole[8:32, 24:56])
    assert seen.panels["rollout"].shape == (3, 4)


def test_a_bare_model_recognises_nothing() -> None:
    eyes = Recogniser(model(labels=()), PIXELS)
    with pytest.raises(
        ValueError, match=r"has no head and knows no classes; teach it some: `regard train vit-images --from"
    ):
        eyes.recognise(picture())
    assert set(eyes.maps(picture())) == {"rollout", "blocks.2.attend"}  # yet it can be seen where it looks


# ---- every kind of file


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I;16"])
def test_any_mode(eyes: Recogniser, mode: str, tmp_path: Path) -> None:
    grey = mode in ("L", "LA", "1", "I;16")
    plain = Image.fromarray(picture(24, 32)).convert("L" if grey else "RGB")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(plain).astype(np.uint16) * 256)
    elif mode in ("P", "1"):
        image = plain = plain.convert(mode)  # which loses something
    else:
        image = plain.convert(mode)
    path = saved(tmp_path / ("a.jpg" if mode == "CMYK" else "a.png"), image)
    answer = eyes.recognise(path)
    pixels = read_image(path)
    close(answer.probabilities, eyes.recognise(pixels).probabilities)
    if mode != "CMYK":  # a JPEG's pixels are about the same
        assert np.array_equal(pixels, np.asarray(plain.convert("RGB")))
    assert np.array_equal(answer.overlay().image, pixels)


def test_eight_bits_that_pillow_holds_as_integers(eyes: Recogniser) -> None:
    grey = Image.fromarray(picture(24, 32)).convert("L")
    assert eyes.recognise(grey.convert("I")).probabilities == eyes.recognise(grey).probabilities


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".bmp", ".gif", ".JPEG", ".tif"])
def test_any_format(eyes: Recogniser, suffix: str, tmp_path: Path) -> None:
    smooth = np.linspace(40, 200, 32 * 24).reshape(24, 32, 1).repeat(3, 2).astype(np.uint8)
    path = saved(tmp_path / f"a{suffix}", Image.fromarray(smooth))
    found = eyes.recognise(path, top=4).probabilities
    wanted = eyes.recognise(smooth, top=4).probabilities
    lossy = suffix in (".jpg", ".webp", ".JPEG")
    for label, share in wanted.items():
        assert found[label] == pytest.approx(share, abs=0.1 if lossy else 1e-5)


def test_a_picture_is_turned_as_the_camera_says(eyes: Recogniser, tmp_path: Path) -> None:
    upright = picture(16, 12)
    exif = Image.Exif()
    exif[0x0112] = 6  # what is to be the top lies on the right
    path = saved(tmp_path / "a.png", Image.fromarray(np.rot90(upright, 1)), exif=exif)
    answer = eyes.recognise(path)
    close(answer.probabilities, eyes.recognise(upright).probabilities)
    assert np.array_equal(answer.overlay().image, upright)


def test_what_is_transparent_shows_white(eyes: Recogniser, tmp_path: Path) -> None:
    """Whatever colour hides there."""
    image = Image.fromarray(np.dstack([picture(), np.zeros((12, 16), np.uint8)]), "RGBA")
    found = eyes.recognise(saved(tmp_path / "a.png", image))
    close(found.probabilities, eyes.recognise(np.full((12, 16, 3), 255, np.uint8)).probabilities)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (700, 2), (80, 5000)], ids=str)
def test_any_size(eyes: Recogniser, size: tuple[int, int], tmp_path: Path) -> None:
    rows, columns = size
    one = np.empty((rows, columns, 3), np.uint8)
    one[:] = (np.arange(columns) * 255 // columns).astype(np.uint8)[:, None]
    answer = eyes.recognise(saved(tmp_path / "a.png", Image.fromarray(one), compress_level=1))
    assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)
    overlay = answer.overlay()
    overlay.save(tmp_path / "overlay.png")
    with Image.open(tmp_path / "overlay.png") as drawn:
        assert max(drawn.size) < 4000
    assert f"{columns} × {rows}" in overlay.svg()


def test_a_picture_larger_than_any_is_refused_by_name(eyes: Recogniser, tmp_path: Path) -> None:
    """A small file that would take gigabytes when decoded."""
    path = saved(tmp_path / "bomb.png", Image.new("1", (20_000, 10_000)))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"bomb\.png cannot be decoded .*exceeds limit"):
        eyes.recognise(path)


@pytest.mark.parametrize(
    "content", [b"", b"no picture at all", b"\x89PNG\r\n\x1a\n", b"GIF89a"], ids=["empty", "text", "begun", "gif"]
)
def test_a_broken_picture_is_named(eyes: Recogniser, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    several: list[Any] = [picture(), path]
    for asked in (path, several):
        with pytest.raises(DataError, match=r"broken\.png cannot be decoded as PNG, JPEG"):
            eyes.recognise(asked)


def test_files_that_are_not_there(eyes: Recogniser, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.png does not exist"):
        eyes.recognise(tmp_path / "none.png")
    with pytest.raises(DataError, match="must be a regular file, and is a directory"):
        eyes.recognise(tmp_path)


def test_pictures_in_folders(tmp_path: Path) -> None:
    (tmp_path / "b" / "inner").mkdir(parents=True)
    (tmp_path / "b" / "folder.png").mkdir()
    (tmp_path / "b" / ".cache").mkdir()
    names = ["b/2.PNG", "b/1.jpg", "b/inner/0.webp", "a.xyz", "b/notes.txt", "b/._1.jpg", "b/.cache/3.png"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    found = Images().find([str(tmp_path / "a.xyz"), str(tmp_path / "b"), str(tmp_path / "a.xyz")], None).files
    assert [str(one.relative_to(tmp_path)) for one in found] == [
        *("a.xyz", "b/1.jpg", "b/2.PNG", "b/inner/0.webp", "a.xyz")  # a file that is named is taken for a picture
    ]
    (tmp_path / "empty").mkdir()
    items = Images().find([str(tmp_path / "empty")], None).items()
    with pytest.raises(DataError, match=r"empty holds no images \(.*\.jpg"):
        list(Reading(items, str, strict=True).good())


def test_pictures_in_a_list(tmp_path: Path) -> None:
    """A line for each, blank ones apart; a folder among them without images does not cost the others."""
    (tmp_path / "b").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "b" / "1.png").write_bytes(b"")
    lines = ["a file.png", "", "b", "empty"]
    (tmp_path / "list.txt").write_text("".join(f"{tmp_path / one if one else one}\n" for one in lines))
    asked = Images().find([], tmp_path / "list.txt")
    places = [place for place, _ in asked.items()]
    assert asked.count == 3
    assert asked.files == [tmp_path / "a file.png", tmp_path / "b" / "1.png"]
    assert [place.partition(", ")[2] for place in places] == ["line 1", "", "line 4"]
    reading = Reading(asked.items(), str)
    *named, empty = reading.in_turn(reading.good(), lambda: None)
    assert len(named) == 2
    assert isinstance(empty, Failed)
    assert "list.txt, line 4: " in empty.error
    assert "empty holds no images" in empty.error
    (tmp_path / "none.txt").write_text("\n\n")
    with pytest.raises(DataError, match=r"none\.txt is empty; it needs the name of one image a line"):
        Images().find([], tmp_path / "none.txt")


# ---- where it looked


def looks(eyes: Recogniser, one: np.ndarray) -> list[np.ndarray]:
    with torch.no_grad(), trace(eyes.model, "blocks.*") as seen:
        eyes.model(eyes.read([one]))
    return [seen[f"blocks.{layer}.attend"][0].numpy() for layer in range(3)]


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_an_overlay_has_the_rollout_and_the_last_layer(pool: str) -> None:
    eyes = Recogniser(model(pool=pool), PIXELS)
    one = picture(40, 50)
    overlay = eyes.recognise(one).overlay()
    weights = looks(eyes, one)
    assert list(overlay.panels) == ["rollout", "blocks.2.attend"]
    assert overlay.panels["rollout"] == pytest.approx(patch_map(rollout(weights), (3, 4), pool=pool), abs=1e-5)
    last = patch_map(weights[2].mean(0), (3, 4), pool=pool)
    assert overlay.panels["blocks.2.attend"] == pytest.approx(last, abs=1e-5)
    total = overlay.panels["rollout"].sum()
    assert total == pytest.approx(1, abs=1e-5) if pool == "mean" else 0 < total < 1
    assert np.array_equal(overlay.image, one)


def test_every_head_of_the_sites_that_are_named(eyes: Recogniser) -> None:
    one = picture()
    answer, weights = eyes.recognise(one), looks(eyes, one)
    panels = answer.overlay("blocks.0.*", "blocks.2.attend").panels
    assert list(panels) == [f"blocks.{layer}.attend, head {head}" for layer in (0, 2) for head in (0, 1)]
    for layer in (0, 2):
        for head in (0, 1):
            wanted = weights[layer][head][0, 1:].reshape(3, 4)
            assert panels[f"blocks.{layer}.attend, head {head}"] == pytest.approx(wanted, abs=1e-5)
    assert len(answer.overlay("*").panels) == 6
    with pytest.raises(
        ValueError, match=r"no attention has a name like 'decoder\.\*'; there are blocks\.0\.attend"
    ):
        answer.overlay("decoder.*")


def test_an_overlay_of_an_answer_that_reads_the_patches_by_weights() -> None:
    eyes = Recogniser(model(pool="attention"), PIXELS)
    one = picture(40, 50)
    with torch.no_grad(), trace(eyes.model, "*") as seen:
        eyes.model(eyes.read([one]))
    reads = seen["patch_pool.attend"][0, 0].numpy()
    panels = eyes.recognise(one).overlay().panels
    assert list(panels) == ["rollout", "patch_pool.attend"]
    assert panels["patch_pool.attend"] == pytest.approx(reads.reshape(3, 4), abs=1e-6)
    wanted = patch_map(rollout(looks(eyes, one)), (3, 4), reads=reads)
    assert panels["rollout"] == pytest.approx(wanted, abs=1e-5)
    assert panels["rollout"].sum() == pytest.approx(1, abs=1e-5)
    heads = eyes.recognise(one).overlay("blocks.0.*").panels
    wanted = patch_map(looks(eyes, one)[0][1], (3, 4), reads=reads)
    assert heads["blocks.0.attend, head 1"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_who_looks_everywhere_alike_has_an_even_rollout(pool: str) -> None:
    even: Any = model(pool=pool)
    with torch.no_grad():
        for block in even.blocks:
            block.attend.query.weight.zero_()
            block.attend.query.bias.zero_()
    overlay = Recogniser(even, PIXELS).recognise(picture()).overlay()
    for weights in overlay.panels.values():
        assert np.ptp(weights) < 1e-6
    tokens = 12 + (pool == "class")
    assert overlay.panels["blocks.2.attend"] == pytest.approx(np.full((3, 4), 1 / tokens))
    # Half of each place goes past each of three layers: what is not is spread over all.
    passed = 0.5**3 if pool == "class" else 0.0
    assert overlay.panels["rollout"] == pytest.approx(np.full((3, 4), (1 - passed) / tokens), abs=1e-6)
    assert "% each" in overlay.svg()


def test_it_is_told_what_was_seen(eyes: Recogniser, tmp_path: Path) -> None:
    path = saved(tmp_path / "a <b> & c.png", Image.fromarray(picture()))
    answer = eyes.recognise(path)
    overlay = answer.overlay()
    likely = list(answer.probabilities.items())[:3]
    assert overlay.title == "a <b> & c.png"
    assert overlay.caption == ", ".join(f"{label} {100 * share:.1f} %" for label, share in likely)
    for suffix in (".png", ".svg", ".html"):
        overlay.save(tmp_path / f"overlay{suffix}")
    assert "a &lt;b&gt; &amp; c.png" in (tmp_path / "overlay.html").read_text()


def test_looking_changes_no_answer_and_holds_no_picture(eyes: Recogniser, tmp_path: Path) -> None:
    """The picture is opened anew for its overlay, so that a thousand answers take no room."""
    path = saved(tmp_path / "a.png", Image.fromarray(picture()))
    first = eyes.recognise(path)
    assert isinstance(first.overlay(), Overlay)
    assert eyes.recognise(path).probabilities == first.probabilities
    path.unlink()
    with pytest.raises(DataError, match=r"a\.png does not exist"):
        first.overlay()


def test_pixels_are_those_of_the_file_or_what_was_given(tmp_path: Path) -> None:
    one = picture()
    assert pixels_of(one) is one
    assert np.array_equal(pixels_of(str(saved(tmp_path / "a.png", Image.fromarray(one)))), one)


# ---- a run in its folder


@pytest.mark.parametrize("edge", [0, 17])
@pytest.mark.parametrize("changes", [{}, {"pool": "mean"}, {"channels": 1}, {"image_width": 0}], ids=str)
def test_a_run_is_opened_as_it_was(changes: dict[str, Any], edge: int, tmp_path: Path) -> None:
    made = model(**changes)
    count = made.config.channels
    pixels = Pixels(PIXELS.mean[:count], PIXELS.std[:count], shortest_edge=edge)
    begin(tmp_path, made, Artifacts(labels=CONFIG.labels, pixels=pixels), "")
    save_weights(tmp_path, made)
    found = load_as(tmp_path, Recogniser, "recognise")
    assert (found.model.config, found.pixels) == (made.config, pixels)
    for seed in range(3):
        one = picture(20, 20, seed)
        assert found.recognise(one).probabilities == Recogniser(made, pixels).recognise(one).probabilities
    with pytest.raises(RunError, match="has the model ViT, for `regard recognise` and not for `regard translate`"):
        load_as(tmp_path, Translator, "translate")


def test_without_a_preprocessor_pictures_are_read_as_vit_does(tmp_path: Path) -> None:
    made = model(channels=1)
    begin(tmp_path, made, Artifacts(labels=CONFIG.labels, pixels=Pixels((0.1,), (0.7,))), "")
    save_weights(tmp_path, made)
    assert json.loads((tmp_path / "preprocessor_config.json").read_text())["image_mean"] == [0.1]
    (tmp_path / "preprocessor_config.json").unlink()
    assert load(tmp_path).pixels == Pixels((0.5,), (0.5,))


def test_the_shapes_are_seen_where_they_are() -> None:
    """Of a model whose first layer looks at bright patches: what the overlay shows is where they lie."""
    made: Any = ViT(ViTConfig(("a", "b"), image_size=32, patch_size=8, dim=8, layers=1, heads=1)).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.zero_()
        made.blocks[0].attend_norm.weight.fill_(1.0)
        made.patches.weight[0] = 1 / 192  # its brightness is a patch's first number
        made.patches.bias[2] = 0.5  # beside which the norm leaves it something to tell
        made.class_token[1] = 1.0
        attend = made.blocks[0].attend
        attend.query.weight[0, 1] = 20.0
        attend.key.weight[0, 0] = 1.0
    found = shapes("test", 12)
    light = np.full((32, 32, 3), 20, np.uint8)
    for left, top, right, bottom in found.boxes[:6].tolist():
        one = light.copy()
        one[top:bottom, left:right] = 255
        panel = Recogniser(made, Pixels((0, 0, 0), (1, 1, 1))).recognise(one).overlay().panels["rollout"]
        row, column = np.unravel_index(panel.argmax(), panel.shape)
        assert top - 8 < 8 * row < bottom
        assert left - 8 < 8 * column < right
