"""Results show themselves: cards are whole, safe HTML, and pictures go where they are asked to."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib import rcParams
from PIL import Image

import meanfield as mf
from meanfield.plot import runs
from tests.handmade import SERIES, run
from tests.plot.drawn import KINDS, points
from tests.tiers import rows


def parsed(shown):
    """The card as a tree, which only whole HTML with no stray mark makes."""
    return ET.fromstring(shown._repr_html_())


def entries(tree):
    return {row.find("th").text: row.find("td").text for row in tree.iter("tr")}


def picture(tree):
    (image,) = tree.iter("img")
    data = image.get("src").removeprefix("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data, validate=True))))


@pytest.mark.parametrize("kind", rows(KINDS, "circle", "patches"))
def test_cards_of_measures(kind):
    measure = KINDS[kind](2.0)
    text = measure._repr_html_()
    assert len(text) < 150_000
    tree = ET.fromstring(text)
    assert np.ptp(picture(tree)[..., :3]) > 100
    rows = entries(tree)
    assert float(rows["length of the mean"]) == pytest.approx(
        np.linalg.norm(measure.mean()), rel=1e-5
    )
    # the public name of its class
    assert tree.find(".//caption").text in repr(measure)


def test_card_of_a_run():
    sol = run([SERIES["sphere"](kappa) for kappa in (0.5, 5.0)])
    before = dict(rcParams)
    tree = parsed(sol)
    assert dict(rcParams) == before
    rows = entries(tree)
    assert rows["dynamics"] == repr(sol.dynamics)
    first, last = (f"{sol.dataset.energy.values[i]:.6g}" for i in (0, -1))
    assert rows["energy E_β"] == f"{first} → {last}"
    height, width, _ = picture(tree).shape
    assert width > 2 * height


@pytest.mark.parametrize(
    ("dynamics", "name"),
    [
        (mf.SA(900.0), "energy share E_β/E_β(δ)"),
        (mf.DoublyStochastic(900.0), "energy E_DS"),
    ],
)
def test_a_card_tells_which_energy_it_shows(dynamics, name):
    sol = mf.evolve(mf.Particles([[1.0, 0.0], [0.0, 1.0]]), dynamics, 1e-3)
    row = entries(parsed(sol))[name]
    assert re.fullmatch(r"[\d.e-]+ → [\d.e-]+", row)


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (mf.SA(4.0, noise=0.5), {"beta": "4.0", "sign": "1", "noise": "0.5"}),
        (mf.VonMisesFisher([0.0, 1.0], 3.0), {"mean": "[0. 1.]", "kappa": "3.0"}),
        (mf.Mixture([mf.Uniform(2)] * 99), {"weights": "[0.0101 0.0101 ... 0.0101 0.0101]"}),
        (mf.clusters(mf.Particles([[0.0, 1.0]])), {"masses": "[1.]", "centres": "[[0. 1.]]"}),
    ],
)
def test_dynamics_laws_and_clusters_are_tables(made, fields):
    tree = parsed(made)
    rows = entries(tree)
    assert fields.items() <= rows.items()
    assert max(map(len, rows.values())) <= 200
    assert tree.find("caption").text == type(made).__name__


def test_texts_are_escaped():
    hostile = '</table><script>alert("σ & τ")</script>'
    sol = run([SERIES["circle"](1.0)], message=hostile)
    text = sol._repr_html_()
    assert "<script" not in text
    assert entries(ET.fromstring(text))["status"] == hostile


def test_cards_of_odd_states():
    single = run([mf.Particles([[0.0, 0.0, 0.0, 1.0]])])
    single.dataset["energy"][:] = np.nan
    assert picture(parsed(single)).size
    assert entries(parsed(single))["energy E_β"] == "nan → nan"
    bare = run([SERIES["circle"](1.0)])
    bare.dataset = bare.dataset.drop_vars(["energy", "energy_share"])
    assert picture(parsed(bare)).size
    all_at_one_place = mf.Particles(np.tile(np.eye(40)[0], (7, 1)), [0, 0, 0, 0, 0, 0, 1])
    assert picture(parsed(all_at_one_place)).size


def test_a_card_without_a_picture_says_why(monkeypatch):
    def fails(*_):
        raise ArithmeticError("<no> density")

    monkeypatch.setattr(runs.panels, "draw", fails)
    tree = parsed(SERIES["circle"](1.0))
    assert tree.find("p").text == "no picture: <no> density"
    assert entries(tree)["space"] == "Circle(128)"


@pytest.mark.parametrize("dim", rows([2, 3, 10], 3))
def test_cards_draw_few_tokens(dim):
    many = mf.Particles.sample(mf.Uniform(dim), 20_000, np.random.default_rng(1))
    assert len(points(runs._figure(many).axes[0])) == 1000
    assert entries(parsed(many))["tokens"] == "20000"
    heavy = np.zeros(20_000)
    heavy[1] = 1.0
    assert picture(parsed(mf.Particles(many.points, heavy, unit_mass=True))).size


def test_cards_of_large_spaces_keep_their_peaks():
    law = mf.VonMisesFisher([0.6, 0.8], 100.0)
    measure = mf.Density(mf.Circle(4096), law)
    (curve,) = (each for each in runs._figure(measure).axes[0].lines if each.get_linewidth() > 1)
    angles, heights = curve.get_data()
    assert len(angles) < 800
    assert heights.max() == 1.0
    # half the distance of its places
    assert angles[heights.argmax()] == pytest.approx(np.arctan2(0.8, 0.6), abs=np.pi / 6144)
    assert (angles[0], angles[-1]) == (0.0, 2.0 * np.pi)
    assert heights[-1] == heights[0]


def test_cards_of_brackets():
    for bracket, place, ends in (
        (mf.Bracket(0.5, 0.5, 0.7), 20.0, "estimates"),
        (mf.Bracket(0.6, 0.5, 0.7, proved=True), 100.0, "proven"),
        (mf.Bracket(0.5, 0.5, 0.5), 100.0, "estimates"),
    ):
        tree = parsed(bracket)
        (dot,) = (each for each in tree.iter() if each.tag.endswith("circle"))
        assert float(dot.get("cx")) == place
        assert entries(tree) == {
            **{name: f"{getattr(bracket, name):g}" for name in ("value", "lower", "upper")},
            "ends": ends,
        }
        assert repr(bracket).endswith(f", proved={ends == 'proven'})")
    assert "no picture: a bound is infinite" in mf.Bracket(1.0, 0.0, np.inf)._repr_html_()
