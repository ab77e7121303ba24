"""Hidden states of trained models against their own attention, and what is refused."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.trained import LayerMatrices, Norm, Rotary
from meanfield.trained.matrices import softmax
from tests.real_layers import excerpt, whole_file

L, N, D, H = 2, 5, 8, 2
ALL = np.ones((N, N), dtype=bool)
CAUSAL = np.tri(N, dtype=bool)


def random_matrices(rng, groups=H, **parts):
    width = D // H
    arrays = {
        "query": rng.normal(size=(H, width, D)),
        "key": rng.normal(size=(groups, width, D)),
        "value": rng.normal(size=(groups, width, D)),
        "output": rng.normal(size=(H, D, width)),
        "query_bias": rng.normal(size=(H, width)),
        "key_bias": rng.normal(size=(groups, width)),
        "value_bias": rng.normal(size=(groups, width)),
        "output_bias": rng.normal(size=D),
        "gain": 1.0 + 0.5 * rng.random(D),
        "shift": rng.normal(size=D),
    }
    return LayerMatrices(**arrays | parts)


def model(norm=None, mask="causal", n_layers=L, groups=1, **parts):
    """The arguments of states that agree with their matrices in every way."""
    rng = np.random.default_rng(0)
    norm = norm or Norm("rms", "before")
    matrices = [random_matrices(rng, groups, **parts) for _ in range(n_layers)]
    states, after, attention = [3.0 * rng.normal(size=(N, D)) + 1.0], [], []
    for layer in matrices:
        inputs = layer.inputs(states[-1], norm)
        attention.append(softmax(layer.scores(inputs), CAUSAL if mask == "causal" else ALL))
        total = states[-1] + layer.attend(attention[-1], inputs)
        if norm.position == "after":
            total = layer.with_gains(norm.normalise(total))
        after.append(total)
        states.append(total + np.tanh(total))
    return {
        "states": np.array(states),
        "after_attention": np.array(after),
        "attention": np.array(attention),
        "matrices": matrices,
        "norm": norm,
        "mask": mask,
    }


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_attention_of_a_trained_layer_is_that_of_its_matrices(name):
    """States, weights and attention are float32: some 1e-7; another convention is off by 0.1."""
    ds = mf.LayerStates.from_file(excerpt(name)).check()
    assert float(ds.attention_error.max()) < 1e-6
    assert len(ds.finding) == 2
    assert float(ds.row_error.max()) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers"), [("minilm", range(6)), ("smollm2", (0, 14, 29))])
def test_all_layers_of_trained_models_are_those_of_their_matrices(name, layers):
    states = mf.LayerStates.from_file(whole_file(name))
    ds = states.check()
    known = np.isfinite(ds.attention_error).all("head")
    assert np.flatnonzero(known).tolist() == list(layers)
    assert float(ds.attention_error.max()) < 1e-6
    # the residual stream of SmolLM2 is of size 24,000, of which float32 keeps 1e-3
    assert (ds.residual_error[known] <= ds.residual_rounding[known]).all()
    sizes = np.array([np.abs(states.after_attention_at(layer)).max() for layer in layers])
    assert (ds.residual_error[known] < 1e-7 * sizes).all()
    assert len(ds.finding) == 2


NORMS = {
    "LayerNorm before": Norm("layer", "before"),
    "RMSNorm before": Norm("rms", "before"),
    "LayerNorm after": Norm("layer", "after"),
    "no norm": Norm("none"),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_a_model_of_our_own_agrees_with_itself(norm):
    ds = mf.LayerStates(**model(norm)).check()
    # float64 throughout: scores of size 100
    assert float(ds.attention_error.max()) < 1e-12
    assert float(ds.residual_error.max()) < 1e-12
    assert len(ds.finding) == 2


def test_gains_of_a_norm_after_are_fitted_where_they_are_not_known():
    arguments = model(Norm("layer", "after"))
    plain = [replace(one, gain=None, shift=None) for one in arguments["matrices"]]
    ds = mf.LayerStates(**arguments | {"matrices": plain}).check()
    assert float(ds.residual_error.max()) < 1e-12


def changed(**changes):
    """States whose matrices are told with another convention than made them."""
    made = {"rotary": Rotary(100.0, "adjacent"), "groups": 1}
    arguments = model(**made | changes.pop("made", {}))
    norm = changes.pop("norm", arguments["norm"])
    of_layer = changes.pop("of_layer", lambda one: changes)
    matrices = [replace(one, **of_layer(one)) for one in arguments["matrices"]]
    return mf.LayerStates(**arguments | {"matrices": matrices, "norm": norm})


CONVENTIONS = {
    "rotary pairs 'adjacent' of base 100": lambda: changed(rotary=Rotary(100.0, "halves")),
    "no rotary angles": lambda: changed(made={"rotary": None}, rotary=Rotary()),
    "rotary pairs 'adjacent' of base 10000": lambda: changed(
        made={"rotary": Rotary(1e4, "adjacent")}, rotary=None
    ),
    "a scale of 1/√k": lambda: changed(scale=1.0),
    "a scale of 1": lambda: changed(made={"scale": 1.0}, scale=0.0),
    "RMSNorm before attention": lambda: changed(norm=Norm("layer")),
    "LayerNorm before attention": lambda: changed(made={"norm": Norm("layer")}, norm=Norm("rms")),
    "no norm before attention": lambda: changed(
        made={"norm": Norm("rms", "after"), "gain": None, "shift": None}, norm=Norm("rms")
    ),
    "no gains of the norm": lambda: changed(made={"gain": None, "shift": None}, gain=np.arange(D)),
    "gains 1 + gain": lambda: changed(of_layer=lambda one: {"gain": one.gain - 1.0}),
    "no biases of queries and keys": lambda: changed(
        made={"query_bias": None, "key_bias": None}, query_bias=np.ones((H, D // H))
    ),
    "matrices of queries and keys as (in, out)": lambda: changed(
        made={"groups": H},
        of_layer=lambda one: {
            name: getattr(one, name).reshape(D, D).T.reshape(H, D // H, D)
            for name in ("query", "key")
        },
    ),
    "a scale of 1/√k and LayerNorm before attention": lambda: changed(
        made={"norm": Norm("layer")}, norm=Norm("rms"), scale=1.0
    ),
}


@pytest.mark.parametrize("text", CONVENTIONS)
def test_the_convention_that_would_agree_is_named(text):
    ds = CONVENTIONS[text]().check()
    assert (ds.attention_error.max("head") > 1e-3).all()
    told = [line for line in ds.finding.values if line.startswith("attention of layer")]
    assert len(told) == L
    for line in told:
        number = re.search(rf"; with {re.escape(text)} it would be (\S+)$", line)
        assert number, line
        assert float(number[1]) < 1e-12


def test_groups_of_keys_in_another_order_are_named():
    rng, width = np.random.default_rng(1), 2
    shapes = {"query": (4, width, D), "key": (2, width, D)}
    matrices = LayerMatrices(**{name: rng.normal(size=shape) for name, shape in shapes.items()})
    other = replace(matrices, key=matrices.key[np.arange(4) % 2])
    states = rng.normal(size=(2, N, D))
    attention = softmax(other.scores(states[0]), ALL)[None]
    ds = mf.LayerStates(states, attention=attention, matrices=[matrices]).check()
    assert "with head h in group h mod G it would be" in str(ds.finding.values[-1])


def test_an_attention_that_nothing_explains_is_told():
    arguments = model()
    attention = np.random.default_rng(3).random((L, H, N, N)) * CAUSAL
    attention /= attention.sum(axis=-1, keepdims=True)
    ds = mf.LayerStates(**arguments | {"attention": attention}).check()
    assert "no other convention that is tried agrees" in str(ds.finding.values[2])


RESIDUALS = {
    "that output times 0.25": lambda x, out: x + 0.25 * out,
    "RMSNorm of that output, its gains fitted,": lambda x, out: (
        x + 3.0 * Norm("rms", eps=1e-5).normalise(out)
    ),
    "LayerNorm after the sum, its gains fitted,": lambda x, out: (
        Norm("layer", eps=1e-5).normalise(x + out) * 2.0 + 0.5
    ),
}


@pytest.mark.parametrize("text", RESIDUALS)
def test_a_broken_residual_identity_is_told_with_its_layer(text):
    arguments, layer = model(), 1
    states, matrices = arguments["states"][layer], arguments["matrices"][layer]
    inputs = matrices.inputs(states, arguments["norm"])
    output = matrices.attend(arguments["attention"][layer], inputs)
    arguments["after_attention"][layer] = RESIDUALS[text](states, output)
    ds = mf.LayerStates(**arguments).check()
    assert float(ds.residual_error[0]) < 1e-12
    size = np.abs(arguments["after_attention"][layer] - states - output).max()
    assert float(ds.residual_error[1]) == pytest.approx(size)
    told = str(ds.finding.values[-1])
    assert told.startswith("state after attention of layer 1: it differs")
    assert f"with {text} it would be" in told


def test_points_go_through_the_norm_of_the_model():
    states = np.random.default_rng(0).normal(size=(2, 4, 6)) + 2.0
    for kind in ("rms", "none", "layer"):
        points = mf.LayerStates(states, norm=Norm(kind)).points(0)
        mean = states[0].mean(axis=1, keepdims=True) if kind == "layer" else 0.0
        wanted = states[0] - mean
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
        assert np.abs(points - wanted).max() < 1e-15
    states[1, 2] = 3.0
    flat = mf.LayerStates(states, norm=Norm("layer"))
    with pytest.raises(ValueError, match=r"layer 1 must have a direction, .* of token 2"):
        flat.points(1)


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_the_last_state_is_seen_to_be_after_the_final_norm(kind):
    rng = np.random.default_rng(0)
    stream, gain, shift = 9.0 * rng.normal(size=(3, 20, 64)), 1.0 + rng.random(64), rng.random(64)
    norm = Norm(kind, gain=gain, shift=shift)
    before = mf.LayerStates(stream, norm=norm)
    assert [before.stage(l) for l in (0, 2)] == [
        "residual stream before layer 0",
        "residual stream after layer 1",
    ]
    final = norm.normalise(stream[2]) * gain + shift
    # to three digits, as of bfloat16
    for digits in (9, 2):
        rounded = final.round(digits)
        after = mf.LayerStates(np.array([*stream[:2], rounded]), norm=norm)
        assert after.stage(2) == "after the final norm, after layer 1"
        assert np.abs(after.points(2) - before.points(2)).max() < 10.0**-digits
    without = mf.LayerStates(np.array([*stream[:2], final]), norm=Norm(kind))
    assert without.stage(2) == "residual stream after layer 1"


def test_prompts_without_their_padding_are_those_alone():
    """Each prompt by itself, beside others, with the padding on either side."""
    alone = model()
    for before in (0, 3, 2):
        n = N + 3
        padding = np.zeros((2, n), dtype=bool)
        padding[0, before : before + N] = padding[1] = True
        padded = np.full((L + 1, 2, n, D), np.nan)
        padded[:, 1], padded[:, 0, before : before + N] = 1.0, alone["states"]
        attention = np.zeros((L, 2, H, n, n))
        attention[:, 1] = np.tri(n) / np.tri(n).sum(axis=1, keepdims=True)
        attention[:, 0, :, before : before + N, before : before + N] = alone["attention"]
        both = padding[:, None, :] & np.tri(n, dtype=bool)
        states = mf.LayerStates(
            padded,
            attention=attention,
            matrices=alone["matrices"],
            norm=alone["norm"],
            mask=both,
            tokens=[[f"{b}{i}" for i in range(n)] for b in range(2)],
        )
        with pytest.raises(ValueError, match=r"of one prompt here, got 2: take prompt\(0\)"):
            states.state(0)
        first, other = states.prompt(0), states.prompt(1)
        assert (first.n_tokens, other.n_tokens, first.n_prompts) == (N, n, 1)
        assert first.tokens[0] == f"0{before}"
        assert np.array_equal(first.allowed, CAUSAL)
        for layer in range(L):
            assert np.array_equal(first.state(layer), alone["states"][layer])
            assert np.array_equal(first.attention_at(layer), alone["attention"][layer])
        assert float(first.check().attention_error.max()) < 1e-12
        assert mf.LayerStates(padded, mask=padding).prompt(0).n_tokens == N


def wrong(name, index, value):
    arguments = model()
    arguments[name] = arguments[name].copy()
    arguments[name][index] = value
    return arguments


WRONG = {
    "states of layer 2 must be finite, got nan at index (1, 3)": wrong("states", (2, 1, 3), np.nan),
    "after_attention of layer 1 must be finite, got inf": wrong("after_attention", (1, 0), np.inf),
    "attention of head 1 in layer 0 must be finite, got nan at index (4, 0)": wrong(
        "attention", (0, 1, 4, 0), np.nan
    ),
    "attention of head 1 in layer 1 must be 0 where mask forbids, got 0.001 from token 2 to "
    "token 4": wrong("attention", (1, 1, 2, 4), 1e-3),
    "attention of head 0 in layer 0 must be >= 0, got -0.5 from token 4 to token 1": wrong(
        "attention", (0, 0, 4, 1), -0.5
    ),
    "attention of head 0 in layer 0 must have rows of sum 1 within 0.0039, got 0.99 in": wrong(
        "attention", (0, 0, 0, 0), 0.99
    ),
    "after_attention must have shape (2, 5, 8), got (1, 5, 8)": model()
    | {"after_attention": np.ones((1, N, D))},
    "attention must have shape (2, 2, 5, 5), got (2, 2, 5, 4)": model()
    | {"attention": np.ones((L, H, N, 4))},
    "states must have shape (L + 1, n, d) or (L + 1, B, n, d) with L >= 1 and d >= 2": {
        "states": np.ones((1, 4, 3))
    },
    "matrices must be 2, one for each layer, got 1": model()
    | {"matrices": model()["matrices"][:1]},
    "matrices of layer 1 must be LayerMatrices, got 3": model()
    | {"matrices": [model()["matrices"][0], 3]},
    "query in matrices of layer 0 must have shape (2, 4, 8), got (1, 4, 8)": model()
    | {"matrices": [LayerMatrices(np.ones((1, 4, D)), np.ones((1, 4, D))), None]},
    "mask must be one of ('causal',), got 'casual'; did you mean causal?": model()
    | {"mask": "casual"},
    "mask must be 'causal' or True and False of shape (5, 5), got an array of shape (5, 4)": model()
    | {"mask": ALL[:, :4]},
    "mask must let each token see one, got a row of False": model() | {"mask": np.tri(N, k=-1) > 0},
    "mask must be 'causal' or True and False of shape (5, 5, 5), got an array of shape (5, 5)": {
        "states": np.ones((2, N, N, 3)),
        "mask": ALL,
    },
    "tokens must have shape (5,), got (2,)": model() | {"tokens": ["a", "b"]},
    "tokens must be words, got an array of shape (5,) and dtype int64": model()
    | {"tokens": np.arange(N)},
    "norm must be a Norm, got 'rms'": model() | {"norm": "rms"},
    "gain of norm must have shape (8,), got (3,)": model() | {"norm": Norm(gain=np.ones(3))},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_is_refused_in_one_line(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as refused:
        mf.LayerStates(**WRONG[message])
    assert len(str(refused.value).splitlines()) == 1


def test_rounding_to_bfloat16_is_said_to_explain_what_it_may():
    arguments = model(gain=None, shift=None)
    bits = arguments["attention"].astype(np.float32).view(np.uint32) + np.uint32(0x8000)
    rounded = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    ds = mf.LayerStates(**arguments | {"attention": rounded}).check()
    lines = [str(line) for line in ds.finding.values[2:]]
    assert len(lines) == 2 * L
    assert all(line.endswith(", rounding to bfloat16 may have made it") for line in lines)


def test_a_mask_that_allows_what_no_head_looks_at_is_told():
    ds = mf.LayerStates(**model() | {"mask": None}).check()
    wanted = (
        "mask allows 10 entries of the attention that are 0 in every layer and head: mask='caus"
    )
    assert str(ds.finding.values[-1]).startswith(wanted)
    attention = model()["attention"]
    attention[1, 0, 3, 4] = attention[1, 0, 3, 0]
    attention[1, 0, 3, 0] = 0.0
    ds = mf.LayerStates(**model() | {"mask": None, "attention": attention}).check()
    assert str(ds.finding.values[-1]).endswith(
        "9 entries of the attention that are 0 in every layer and head"
    )


def test_beside_padding_the_mask_that_would_forbid_them_keeps_it():
    """mask='causal' alone would take padding for tokens."""
    padding = np.array([[True] * N, [False] + [True] * (N - 1)])
    attention = padding[:, None, :] & CAUSAL | np.eye(N, dtype=bool)
    attention = (attention / attention.sum(axis=-1, keepdims=True))[None, :, None]
    states = np.random.default_rng(0).normal(size=(2, 2, N, D))
    told = mf.LayerStates(states, attention=attention, mask=padding).prompt(1).check()
    (line,) = (str(line) for line in told.finding.values if str(line).startswith("mask allows"))
    assert line.endswith("head: padding[:, None, :] & np.tri(n, dtype=bool) forbids them")
    both = padding[:, None, :] & np.tri(N, dtype=bool)
    told = mf.LayerStates(states, attention=attention, mask=both).prompt(1).check()
    assert not any(str(line).startswith("mask allows") for line in told.finding.values)


def test_float16_that_overflows_is_told():
    states = np.ones((2, 3, 4), dtype=np.float16)
    states[1, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"got inf at .*: float16 ends at 65504, store float32 or"):
        mf.LayerStates(states)


def test_every_entry_above_zero_that_the_mask_forbids_is_refused():
    arguments = model(n_layers=1)
    for row, column in itertools.combinations(range(N), 2):
        wrong = arguments["attention"].copy()
        wrong[0, 1, row, column] = np.nextafter(0.0, 1.0)
        with pytest.raises(ValueError, match=f"from token {row} to token {column}$"):
            mf.LayerStates(**arguments | {"attention": wrong})


def test_scores_without_matrices_say_what_is_missing():
    states = mf.LayerStates(**model() | {"matrices": [model()["matrices"][0], None]})
    assert states.scores(0).shape == (H, N, N)
    with pytest.raises(ValueError, match="matrices of layer 1 must be known for its scores"):
        states.scores(1)
    with pytest.raises(ValueError, match="layer must be an integer >= 0 and <= 1, got 2"):
        states.attention_at(2)


def test_attention_on_padding_is_refused():
    padding = np.array([[True, True, False]])
    attention = np.full((1, 1, 1, 3, 3), [0.5, 0.5, 0.0])
    arguments = {"states": np.ones((2, 1, 3, 4)), "mask": padding}
    states = mf.LayerStates(**arguments, attention=attention)
    assert states.attention_at(0).shape == (1, 2, 2)
    attention[..., 1, :] = 0.25, 0.25, 0.5
    with pytest.raises(ValueError, match=r"head 0 .* got 0\.5 from token 1 to token 2$"):
        mf.LayerStates(**arguments, attention=attention)
    # what padding looks at is nobody's
    attention[..., 1, :], attention[..., 2, :] = [0.5, 0.5, 0.0], np.nan
    assert mf.LayerStates(**arguments | {"attention": attention}).n_tokens == 2
