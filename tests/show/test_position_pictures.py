"""Pictures of position encodings."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from regard.show import Barcode, Images, barcode, position_curves, similarity


def waves(count, dim):
    angles = np.arange(count)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(count, dim)


def test_curves_are_columns_over_the_positions():
    encodings = waves(30, 8)
    curves = position_curves(encodings, (0, 5))
    assert list(curves.series) == ["dimension 0", "dimension 5"]
    x, y = curves.series["dimension 5"]
    np.testing.assert_array_equal(x, np.arange(30))
    np.testing.assert_array_equal(y, encodings[:, 5])
    assert list(position_curves(waves(3, 10)).series) == [f"dimension {at}" for at in (0, 2, 4, 6, 8)]
    assert list(position_curves(waves(3, 2)).series) == ["dimension 0", "dimension 1"]
    with pytest.raises(ValueError, match="must lie in 0 to 7, got 8"):
        position_curves(encodings, [1, 8])


@pytest.mark.parametrize("picture", [position_curves, barcode, similarity])
@pytest.mark.parametrize(
    ("encodings", "message"),
    [
        (np.ones(3), r"shape \(positions, dimensions\), got \(3,\)"),
        (np.ones((0, 4)), r"got \(0, 4\)"),
        (np.array([[0, 1], [0, np.nan]]), "got nan at position 1, dim 1"),
    ],
)
def test_what_is_no_table_of_encodings_is_refused(picture, encodings, message):
    with pytest.raises(ValueError, match=message):
        picture(encodings)


@pytest.mark.parametrize("scale", [1.0, 0.02, 7.0])
def test_the_barcode_shows_values_round_zero(scale):
    ax = barcode(scale * waves(20, 8)).plot(Figure().add_subplot())
    (image,) = ax.get_images()
    low, high = image.get_clim()
    assert low == -high == pytest.approx(-scale)
    np.testing.assert_allclose(image.get_array(), scale * waves(20, 8))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("dimension", "position")
    assert barcode(np.zeros((2, 2))).plot(Figure().add_subplot()).get_images()[0].get_clim() == (-1, 1)


def test_rows_of_a_barcode_have_names_and_parts_stand_apart():
    values = np.arange(12.0).reshape(2, 6)
    ax = Barcode(values, rows=["my", "dog"], parts={"token": 2, "position": 4}).plot(Figure().add_subplot())
    (image,) = ax.get_images()
    drawn = np.ma.filled(image.get_array(), np.nan)
    np.testing.assert_array_equal(drawn[:, [0, 1, 4, 5, 6, 7]], values)
    assert np.isnan(drawn[:, 2:4]).all()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["my", "dog"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["token", "position"]
    assert ax.get_xticks().tolist() == [0.5, 5.5]
    with pytest.raises(ValueError, match="rows must name all 2 positions, got 1 names"):
        Barcode(values, rows=["my"])
    with pytest.raises(ValueError, match=r"parts must add up to the 6 dimensions, got \{'a': 5\}"):
        Barcode(values, parts={"a": 5})


def test_images_stand_in_a_row(tmp_path):
    wide, high = np.zeros((4, 8, 3), np.uint8), np.full((6, 3, 3), 200, np.uint8)
    row = Images({"wide": wide, "high": high}, "Two")
    ax = row.plot(Figure().add_subplot())
    first, second = (image.get_extent() for image in ax.get_images())
    assert (first[1] - first[0], second[1] - second[0]) == (2, pytest.approx(0.5))
    assert first[1] < second[0]
    assert [text.get_text() for text in ax.texts] == ["wide", "high"]
    assert ax.get_title() == "Two"
    row.save(tmp_path / "row.png")
    with Image.open(tmp_path / "row.png") as image:
        assert image.height < 0.8 * image.width, "no room above and below"
    assert "data:image/png" in row.html()
    with pytest.raises(ValueError, match="no images to draw"):
        Images({})
    with pytest.raises(ValueError, match="image must be bytes"):
        Images({"a": np.zeros((4, 4))})


def test_similarity_is_the_dot_product_by_distance():
    encodings = np.array([[1.0, 0], [0, 1], [2, 1]])
    curves = similarity(encodings)
    x, y = curves.series["dot product"]
    low, high = curves.spread["dot product"]
    assert x.tolist() == [0, 1, 2]
    np.testing.assert_allclose(y, [(1 + 1 + 5) / 3, (0 + 1) / 2, 2])
    np.testing.assert_allclose([low, high], [[1, 0, 2], [5, 1, 2]])


def test_of_waves_the_distance_alone_decides():
    curves = similarity(waves(50, 16))
    low, high = curves.spread["dot product"]
    np.testing.assert_allclose(high - low, 0, atol=1e-12)
    assert curves.series["dot product"][1][0] == pytest.approx(8)
    assert curves.series["dot product"][1].argmax() == 0


@pytest.mark.parametrize("picture", [position_curves, barcode, similarity])
def test_saved_pictures_open(picture, tmp_path):
    drawn = picture(waves(40, 16))
    drawn.save(tmp_path / "p.png")
    with Image.open(tmp_path / "p.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    drawn.save(tmp_path / "p.svg")
    first = (tmp_path / "p.svg").read_bytes()
    assert "position" in " ".join(ElementTree.fromstring(first).itertext()) or picture is similarity
    drawn.save(tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_bytes() == first
    drawn.save(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == drawn._repr_html_().count("<svg") == 1
    assert "<script" not in page
    with pytest.raises(ValueError, match=r"\.png or \.svg or \.html"):
        drawn.save(tmp_path / "p.gif")


@pytest.mark.parametrize("dim", [2, 4, 16])
def test_the_legend_does_not_lie_over_the_curves(dim):
    figure = Figure(layout="constrained")
    ax = position_curves(waves(50, dim)).plot(figure.add_subplot())
    figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1
