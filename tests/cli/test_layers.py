"""meanfield layers: from a file of states to a dataset, a figure and a page, or to one line."""

import os
import re
import resource
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import meanfield as mf
from meanfield.cli.commands import main
from meanfield.cli.layers import LAYERS, load_layers
from meanfield.cli.report import page_of_layers
from meanfield.evolution import netcdf
from meanfield.trained.measure import claims
from tests.children import hearing_ctrl_c
from tests.trained.layers import drawn

# 12 tokens on S^3, 3 layers of 2 heads whose β are known
MODEL = mf.trained.synthetic_layers(
    drawn(12, 4), 3, beta=[2.0, 5.0], step=0.2, noise=0.3, mask="causal", rng=0
)
ARRAYS = {
    "states": MODEL.states,
    "after_attention": MODEL.after_attention,
    "attention": MODEL.attention,
    "mask": "causal",
    "tokens": [f"<b>{i}" for i in range(12)],
}
FEW = ["--repeats", "2", "--beta", "2,4"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with a file of states, and what the command makes of it."""
    folder = tmp_path_factory.mktemp("layers")
    np.savez(folder / "states.npz", **ARRAYS)
    command = ["layers", str(folder / "states.npz"), "-o", str(folder / "layers.nc"), "-q", *FEW]
    assert main(command) == 0
    return folder


def lines(capsys):
    said = capsys.readouterr()
    return said.out.splitlines(), said.err.splitlines()


def test_the_dataset_is_that_of_the_instruments(measured):
    ds = load_layers(measured / "layers.nc")
    states = mf.LayerStates.from_file(measured / "states.npz")
    alone = mf.trained.measure_layers(states, beta=[2.0, 4.0], repeats=2, rng=0)
    for name in alone.variables:
        np.testing.assert_array_equal(ds[name].values, alone[name].values, name)
        assert ds[name].attrs == alone[name].attrs, name
    assert claims(ds) == claims(alone)
    assert ds["row_error"].max() < 1e-14
    about = ds.attrs
    assert about["file"] == "states.npz"
    assert (about["mask"], about["norm"]) == ("causal", "none is known")
    assert about["meanfield_version"] == mf.__version__ or "+" in about["meanfield_version"]
    assert len(about["source_sha256"]) == 64


def test_conventions_are_named(measured, tmp_path):
    eye = np.eye(4)
    np.savez(
        tmp_path / "known.npz",
        **{name: ARRAYS[name] for name in ("states", "mask")},
        n_heads=2,
        norm="rms",
        query_0=eye,
        key_0=eye[:2],
        rotary_base=50.0,
    )
    command = ["layers", str(tmp_path / "known.npz"), "-o", str(tmp_path / "out.nc"), "-q", *FEW]
    assert main(command) == 0
    about = load_layers(tmp_path / "out.nc").attrs
    assert about["norm"].startswith("Norm('rms', 'before'")
    assert about["scores"].startswith("scale 0.707107, each head with one of 1 groups of keys, ")
    assert "base=50.0" in about["scores"]


def test_what_is_said(measured, folder, capsys):
    shutil.copy(measured / "states.npz", "states.npz")
    assert main(["layers", "states.npz", *FEW]) == 0
    out, err = lines(capsys)
    assert err == []
    assert out[0] == "3 layers of 2 heads, 12 tokens in d = 4"
    ds = load_layers("layers.nc")
    verdicts = claims(ds)
    assert len(verdicts) == 4
    for line, claim in zip(out[1:5], verdicts, strict=True):
        assert line == f"{claim.name}, {claim.subset}: {claim.verdict}. {claim.sentence}"
        assert re.search(r"null|drift to their mean|another layer", line)
    assert out[-1] == "wrote layers.nc, layers.png"
    assert main(["info", "layers.nc"]) == 0
    told = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines(capsys)[0])
    assert told["model"] == out[0]
    assert told["file"] == "states.npz"
    assert told["energy, all tokens"].startswith(claims(ds)[0].verdict)


def test_files_of_the_same_states_are_replaced_and_no_others(measured, folder, capsys):
    shutil.copy(measured / "states.npz", "states.npz")
    assert main(["layers", "states.npz", "-q", *FEW]) == 0
    kept = Path("layers.nc").read_bytes()
    assert main(["layers", "states.npz", "-q", *FEW]) == 0
    assert main(["plot", "layers.nc", "-q"]) == 0
    assert main(["report", "layers.nc", "-q"]) == 0
    assert main(["report", "layers.nc", "-q"]) == 0
    assert lines(capsys) == ([], [])
    assert main(["layers", "states.npz", "-q", "--rng", "1", *FEW]) == 2
    assert "--output must be a new file or one of the same case" in lines(capsys)[1][0]
    assert Path("layers.nc").read_bytes() == kept
    assert main(["layers", "states.npz", "-q", "--rng", "1", "--force", *FEW]) == 0
    assert Path("layers.nc").read_bytes() != kept


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_polite_kill_leave_what_was_there(
    number, measured, folder, capsys, monkeypatch
):
    """In the middle of the instruments, over an earlier dataset and figure."""
    shutil.copy(measured / "states.npz", "states.npz")
    assert main(["layers", "states.npz", "-q", *FEW]) == 0
    before = contents(folder)

    def strike(*_):
        os.kill(os.getpid(), number)

    monkeypatch.setattr("meanfield.trained.measure.couplings", strike)
    with hearing_ctrl_c():
        assert main(["layers", "states.npz", "--rng", "1", "--force", *FEW]) == 130
    assert lines(capsys) == ([], ["meanfield: interrupted"])
    assert contents(folder) == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_disk_that_fills_up_leaves_what_was_there(measured, folder, capsys):
    """A limit on the size of files stands for it: the system refuses to write beyond."""
    shutil.copy(measured / "states.npz", "states.npz")
    assert main(["layers", "states.npz", "-q", *FEW]) == 0
    before = contents(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        status = main(["layers", "states.npz", "-q", "--rng", "1", "--force", *FEW])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert status == 1
    out, (line,) = lines(capsys)
    assert out == []
    assert line.startswith("meanfield: can't write layers.nc")
    assert contents(folder) == before


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def changed(**others):
    return {name: values for name, values in (ARRAYS | others).items() if values is not None}


def spoilt(name, place, value):
    values = ARRAYS[name].copy()
    values[place] = value
    return changed(**{name: values})


BAD = {
    "a wrong shape": (changed(attention=ARRAYS["attention"][:2]), "attention must have shape"),
    "a row that has another sum": (spoilt("attention", (1, 0, 3, 2), 0.9), "rows of sum 1"),
    "nan": (spoilt("states", (2, 5, 1), np.nan), "states of layer 2"),
    "a mask that the attention contradicts": (
        spoilt("attention", (2, 1, 0, 5), 1e-9),
        "must be 0 where mask forbids",
    ),
    "float16 that overflows": (
        changed(states=np.full((4, 12, 4), np.inf, dtype=np.float16)),
        "float16 ends at 65504",
    ),
    "several prompts": (
        {"states": np.stack([MODEL.states, MODEL.states], axis=1)},
        "--prompt must be 0 to 1",
    ),
    "few tokens": ({"states": MODEL.states[:, :5]}, "at least 8 tokens, got 5"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_states_are_one_line_and_nothing_is_written(fault, folder, capsys):
    arrays, text = BAD[fault]
    np.savez("bad.npz", **arrays)
    assert main(["layers", "bad.npz", *FEW]) == 2
    out, (line,) = lines(capsys)
    assert out == []
    assert line.startswith("meanfield: ")
    assert text in line
    assert sorted(path.name for path in folder.iterdir()) == ["bad.npz"]


# the instruments count tokens, and begin when the output is settled
@pytest.mark.parametrize("fault", [name for name in BAD if name != "few tokens"])
def test_bad_states_are_told_before_what_lies_at_the_output(fault, measured, folder, capsys):
    shutil.copy(measured / "layers.nc", "layers.nc")
    arrays, text = BAD[fault]
    np.savez("bad.npz", **arrays)
    before = contents(folder)
    assert main(["layers", "bad.npz", *FEW]) == 2
    out, (line,) = lines(capsys)
    assert out == []
    assert text in line
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("layers none.npz", "there is no file none.npz"),
        ("layers .", "it must be a regular file"),
        ("layers text.npz", "it is no npz, npy or safetensors file"),
        ("layers states.npz --beta 1,x", "--beta must be numbers"),
        ("layers states.npz --beta 0,1", "beta must be > 0, got 0"),
        ("layers states.npz --repeats 1", "'--repeats'"),
        ("layers states.npz --max-tokens 7", "'--max-tokens'"),
        (
            "layers states.npz --prompt 1",
            "--prompt must be 0 to 0, one of the prompts of states.npz, got 1",
        ),
        ("layers states.npz -o layers.txt", "--output must be a file name that ends in .nc"),
        ("layers states.npz --figure layers.gif", "--figure must be a file name that ends in .png"),
        (
            "layers states.npz -o none/layers.nc",
            "in a folder that can be written, got 'none/layers",
        ),
        (
            "layers states.npz --figure text.npz/a.png",
            "a folder that can be written, got 'text.npz",
        ),
        ("layers states.npz -o mine.nc", "--output must be a new file or one of the same case"),
        ("layers states.npz -o my.nc", "the figure beside --output must be a new file or one of"),
        (
            "layers states.npz --figure my.png",
            "--figure must be a new file or one of the same case",
        ),
        ("plot made.nc --name beta", "name must be one of"),
        ("report made.nc made.nc", "must be one or two runs, or one file of layers"),
        ("resume made.nc", "got 'meanfield-layers'"),
        ("movie made.nc", "got 'meanfield-layers'"),
        ("compare made.nc made.nc", "got 'meanfield-layers'"),
    ],
)
def test_bad_command_lines_are_one_line(command, text, measured, folder, capsys):
    shutil.copy(measured / "states.npz", "states.npz")
    shutil.copy(measured / "layers.nc", "made.nc")
    Path("text.npz").write_text("no array at all")
    # files of the user's own
    Path("mine.nc").write_text("mine")
    Path("my.png").write_text("mine")
    before = contents(folder)
    assert main(command.split()) == 2
    out, (line,) = lines(capsys)
    assert out == []
    assert text in line
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["mean_cosine", "r2", "finding", "energy_share_shuffled"])
def test_a_file_that_lacks_a_number_is_refused(name, measured, folder, capsys):
    ds = load_layers(measured / "layers.nc")
    netcdf.write(ds.drop_vars(name), Path("less.nc"))
    for command in ("info", "plot", "report"):
        assert main([command, "less.nc"]) == 2
        out, (line,) = lines(capsys)
        assert out == []
        assert line.startswith("meanfield: can't read less.nc: ")
        assert name in line
    assert [path.name for path in folder.iterdir()] == ["less.nc"]


def test_damage_is_seen(measured, folder, capsys):
    content = bytearray((measured / "layers.nc").read_bytes())
    content[len(content) // 2] ^= 1
    Path("damaged.nc").write_bytes(content)
    assert main(["report", "damaged.nc"]) == 2
    assert "it was damaged or changed" in lines(capsys)[1][0]


def test_of_several_prompts_one_is_measured(measured, folder):
    np.savez("two.npz", states=np.stack([MODEL.states, MODEL.states[::-1]], axis=1))
    assert main(["layers", "two.npz", "--prompt", "1", "-q", *FEW]) == 0
    ds = load_layers("layers.nc")
    assert "effective_beta" not in ds
    expected = mf.mean_cosine(mf.Particles(MODEL.states[-1]))
    # products of rows that lie elsewhere in memory may be rounded otherwise
    assert float(ds["mean_cosine"][0, 0]) == pytest.approx(expected, abs=1e-15)
    # a page without heads, and without anything that the file could be held against
    text = page_of_layers(ds)
    assert "Effective β" not in text
    assert "the file has no matrices that its states and attention could be" in text


def test_a_page_has_each_claim_with_its_null(measured):
    ds = load_layers(measured / "layers.nc")
    text = page_of_layers(ds)
    assert text.startswith("<!DOCTYPE html>")
    assert len(text) < 2_000_000
    for claim in claims(ds):
        assert f"<b>{claim.verdict}</b>" in text
        assert f"{claim.value:+.3g} ± {claim.error:.2g}" in text
        assert f"{claim.null:+.3g}, {claim.null_name}" in text
    for r2 in ds["r2"].values.ravel():
        assert f"R² {r2:.2f}" in text
    # no β without its R², and none where R² is low
    low = ds.copy(deep=True)
    low["r2"][...] = 0.05
    # the model has no sinks, and so one table
    assert len(re.findall("no β<br>R² 0.05", page_of_layers(low))) == ds["r2"].size // 2
    assert (
        "± "
        not in page_of_layers(low)
        .partition("<h2>Effective β")[2]
        .partition("</section>")[0]
        .partition("</p>")[2]
    )


def test_words_of_a_file_are_text(measured):
    """Tokens, names of files and findings may hold anything."""
    ds = load_layers(measured / "layers.nc").assign_attrs(file="<script>alert(1)</script>")
    ds["is_sink"][2] = True
    ds["finding"] = ds["finding"].astype(object).copy()
    text = page_of_layers(ds)
    assert "<script>alert" not in text
    assert "<b>2" not in text
    assert "&lt;b&gt;2" in text


def test_a_file_that_contradicts_itself_says_so(measured):
    ds = load_layers(measured / "layers.nc")
    ds["attention_error"][...] = 1e-3
    ds["attention_rounding"][...] = 1e-7
    text = page_of_layers(ds)
    assert 'class="verdict bad"' in text
    assert "0 of 3 layers with matrices agree" in text


def test_what_is_no_dataset_of_layers_is_refused(measured):
    with pytest.raises(ValueError, match="ds must be a dataset of meanfield layers"):
        page_of_layers({})
    netcdf.write(xr.Dataset({"a": 1.0}), measured / "other.nc")
    with pytest.raises(ValueError, match=f"format must be '{LAYERS}', got none"):
        load_layers(measured / "other.nc")


@pytest.mark.slow
def test_the_page_is_seen_in_a_browser(measured, browser, tmp_path):
    path = tmp_path / "layers.html"
    path.write_text(page_of_layers(load_layers(measured / "layers.nc")), encoding="utf-8")
    with browser.open(path, ready="body[data-ready]") as view:
        for options in ({}, {"width": 390}, {"dark": True}, {"printed": True}):
            view.turn(**options)
            assert (view.errors, view.overflows(), view.blanks()) == ([], [], [])
